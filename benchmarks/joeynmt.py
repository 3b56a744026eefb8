"""Measure JoeyNMT 2.3.0 at the sizes of train_speed.py, as the peer of the other benchmarks.

    python benchmarks/joeynmt.py train --data DIR
    python benchmarks/joeynmt.py learn --data DIR --epochs 6
    python benchmarks/joeynmt.py translate --data DIR --beam 5

DIR contains {train,val,test_2016_flickr}.{de,en}.gz. `train` prints the target tokens per second of
some updates, EOS included, as JoeyNMT counts them. `learn` trains whole epochs and keeps the model
with the best validation loss; the scores of each epoch are in --work/model/train.log. `translate`
translates the test set with that model and prints sentences per second and BLEU; the time of
starting, loading and translating one line is subtracted.

The first call installs JoeyNMT and torch into an environment in --work (1.5 GB). The model is
JoeyNMT's recurrent one with additive attention: embedding 256, bidirectional GRU 512, decoder GRU
512 with input feeding, a joint SentencePiece model of 8,000 tokens, Adam, fp32.
"""

import argparse
import gzip
import re
import statistics
import subprocess
import sys
import tempfile
import time
import venv
from collections.abc import Sequence
from pathlib import Path

import sacrebleu

REQUIREMENTS = (
    "torch==2.13.0",
    "sentencepiece==0.1.99",
    "setuptools<80",
    *("datasets", "importlib_metadata", "matplotlib", "numpy", "packaging", "pylint", "pyyaml"),
    *("sacrebleu", "sacremoses", "seaborn", "subword-nmt", "tensorboard"),
)
"""Packages that JoeyNMT imports. The versions in its own requirements cannot be installed together
with a current torch."""
TRAIN_TOKENIZER = """
import sys, sentencepiece
sentencepiece.SentencePieceTrainer.train(
    input=sys.argv[1:], model_prefix="sp", vocab_size=8000, model_type="unigram",
    character_coverage=1.0, unk_id=0, pad_id=1, bos_id=2, eos_id=3)
"""
SIDE = """{{lang: {language}, max_length: 100, level: bpe, voc_file: vocab.txt,
          tokenizer_type: sentencepiece, tokenizer_cfg: {{model_file: sp.model}}}}"""
DATA = """
name: peer
joeynmt_version: "2.3.0"
model_dir: {model}
use_cuda: {cuda}
fp16: false
random_seed: {seed}
data:
    train: train
    dev: val
    test: {test}
    dataset_type: plain
    src: {source_side}
    trg: {target_side}
"""
"""The beginning of each configuration."""
CONFIG = (
    DATA
    + """testing:
    beam_size: {beam}
    beam_alpha: 1.0
    batch_size: 64
    batch_type: sentence
    eval_metrics: [bleu]
    max_output_length: 60
training:
    optimizer: adam
    learning_rate: 0.001
    clip_grad_norm: 1.0
    batch_size: 128
    batch_type: sentence
    normalization: tokens
    scheduling: exponential
    decrease_factor: 1.0
    epochs: {epochs}
    updates: {updates}
    validation_freq: {validation}
    logging_freq: 10
    early_stopping_metric: loss
    overwrite: true
    print_valid_sents: [0]
    keep_best_ckpts: 1
model:
    initializer: xavier_uniform
    embed_initializer: normal
    embed_init_weight: 0.1
    encoder: {{type: recurrent, rnn_type: gru, embeddings: {{embedding_dim: 256}},
              hidden_size: 512, bidirectional: true, dropout: 0.2, num_layers: 1}}
    decoder: {{type: recurrent, rnn_type: gru, embeddings: {{embedding_dim: 256}},
              hidden_size: 512, dropout: 0.2, hidden_dropout: 0.2, num_layers: 1,
              input_feeding: true, init_hidden: bridge, attention: bahdanau}}
"""
)
WITHOUT_END = 10**9
UPDATES_PER_VALIDATION = 230
"""About an epoch of Multi30k; a multiple of logging_freq."""


class JoeyNMT:
    """JoeyNMT in an environment of its own, with the corpus and the configuration in a folder."""

    def __init__(self, options: argparse.Namespace) -> None:
        self._options = options
        self._work: Path = options.work.resolve()
        self._python = str(self._work / "venv" / "bin" / "python")

    def prepare(self) -> None:
        """Install JoeyNMT, unpack the corpus and train the tokenizer, if that is still to do."""
        ready = self._work / "venv" / "ready"
        if not ready.exists():
            venv.create(self._work / "venv", with_pip=True, clear=True)
            pip = (self._python, "-m", "pip", "install", "--quiet")
            subprocess.run([*pip, *REQUIREMENTS], check=True)
            subprocess.run([*pip, "--no-deps", "joeynmt==2.3.0"], check=True)
            ready.touch()
        languages = (self._options.source, self._options.target)
        for split in ("train", "val", self._options.test):
            for language in languages:
                name = f"{split}.{language}"
                text = gzip.decompress((self._options.data / f"{name}.gz").read_bytes())
                (self._work / name).write_bytes(text)
        if not (self._work / "vocab.txt").exists():
            texts = [f"train.{language}" for language in languages]
            self._run("-c", TRAIN_TOKENIZER, *texts)
            rows = (self._work / "sp.vocab").read_text(encoding="utf-8").split("\n")
            tokens = "\n".join(row.split("\t")[0] for row in rows)
            (self._work / "vocab.txt").write_text(tokens, encoding="utf-8")

    def train(self, *, epochs: int | None = None) -> float:
        """Train some updates, or whole epochs with validation; return target tokens per second."""
        config = self._configure(
            model="model" if epochs else "model-of-speed",
            epochs=epochs or WITHOUT_END,
            updates=WITHOUT_END if epochs else self._options.updates,
            validation=UPDATES_PER_VALIDATION if epochs else WITHOUT_END,
        )
        done = self._run("-m", "joeynmt", "train", config, "--skip-test")
        speeds = re.findall(r"Tokens per Sec:\s+([\d.]+)", done.stdout + done.stderr)
        return statistics.median(map(float, speeds))

    def translate(self) -> tuple[float, float]:
        """Translate the test set; return sentences per second and BLEU."""
        sources, references = (
            (self._work / f"{self._options.test}.{language}").read_text(encoding="utf-8")
            for language in (self._options.source, self._options.target)
        )
        config = self._configure(model="model", epochs=1, updates=1, validation=WITHOUT_END)
        seconds, outputs = [], []
        for text in (sources[: sources.index("\n") + 1], sources):
            started = time.perf_counter()
            outputs.append(self._run("-m", "joeynmt", "translate", config, text=text).stdout)
            seconds.append(time.perf_counter() - started)
        lines = outputs[1].removesuffix("\n").split("\n")
        bleu = sacrebleu.corpus_bleu(lines, [references.removesuffix("\n").split("\n")]).score
        return len(lines) / (seconds[1] - seconds[0]), bleu

    def _configure(self, template: str = CONFIG, **values: object) -> str:
        options = self._options
        sides = (SIDE.format(language=language) for language in (options.source, options.target))
        known = {"test": options.test, "beam": getattr(options, "beam", 1), "seed": 42}
        known["cuda"] = str(getattr(options, "cuda", False)).lower()
        known |= dict(zip(("source_side", "target_side"), sides, strict=True))
        config = template.format(**known | values)
        (self._work / "peer.yaml").write_text(config, encoding="utf-8")
        return "peer.yaml"

    def _run(self, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
        command = [self._python, *arguments]
        done = subprocess.run(
            command, cwd=self._work, input=text, capture_output=True, text=True, check=False
        )
        if done.returncode:
            sys.exit(f"{done.stderr}error: JoeyNMT failed; its messages are above")
        return done


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("task", choices=("train", "learn", "translate"))
    parser.add_argument("--data", type=Path, required=True, help="folder of the corpus")
    parser.add_argument(
        "--work",
        type=Path,
        default=Path(tempfile.gettempdir(), "joeynmt"),
        help="folder of the environment and the models (default: %(default)s)",
    )
    parser.add_argument("--source", default="de", help="source language (default: de)")
    parser.add_argument("--target", default="en", help="target language (default: en)")
    parser.add_argument(
        "--test", default="test_2016_flickr", help="test set (default: test_2016_flickr)"
    )
    parser.add_argument("--updates", type=int, default=60, help="updates of train (default: 60)")
    parser.add_argument("--epochs", type=int, default=6, help="epochs of learn (default: 6)")
    parser.add_argument("--beam", type=int, default=1, help="beam size of translate (default: 1)")
    parser.add_argument("--cuda", action="store_true", help="use the GPU")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> None:
    options = parse(argv)
    joeynmt = JoeyNMT(options)
    joeynmt.prepare()
    if options.task == "translate":
        speed, bleu = joeynmt.translate()
        print(f"JoeyNMT, beam {options.beam}: {speed:.1f} sentences/s, BLEU {bleu:.2f}")
    else:
        speed = joeynmt.train(epochs=options.epochs if options.task == "learn" else None)
        print(f"JoeyNMT: {speed:.0f} target tokens/s")


if __name__ == "__main__":
    main()
