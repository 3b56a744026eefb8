"""Race JoeyNMT's Transformer for minutes of one thread: BLEU and chrF on the test set.

    python benchmarks/race.py run --data DIR --system seq2seq --minutes 5 15 30 60 --seed 1
    python benchmarks/race.py run --data DIR --system joeynmt --minutes 5 15 30 60 --seed 1
    python benchmarks/race.py chart

`run` appends a row for each budget to --table, with the processor time that the training took,
validation included; `chart` draws the table into a picture beside it. The budgets of JoeyNMT are
processor time, those of seq2seq are time of the clock, so the machine should be idle. seq2seq
trains anew for each budget, with `experiment=best` and `training.max_minutes`, which sets its
schedule. JoeyNMT trains once, and its best checkpoint so far is copied at the end of each budget,
because its schedule does not depend on the budget. Both translate the test set with a beam of 5.

DIR contains {train,val,test_2016_flickr}.{de,en}.gz; other sets need --test. The Transformer is
the Tiny configuration of Wu et al. 2021 ("Good for misconceived reasons") for Multi30k: 4 layers, 4
heads, sizes 128 and 256, tied embeddings, Adam, label smoothing 0.1. Their warm-up of 2,000 updates
to 0.005, dropout 0.3 and batches of 4,096 tokens are meant for many hours; the defaults here were
chosen for an hour. JoeyNMT is installed as by joeynmt.py.
"""

import argparse
import csv
import gzip
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import sacrebleu
from matplotlib.figure import Figure

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.joeynmt import DATA, WITHOUT_END, JoeyNMT

ROOT = Path(__file__).parents[1]
LANGUAGES = {"de": "German", "en": "English"}
COLUMNS = ("corpus", "system", "seed", "minutes", "processor_minutes", "bleu", "chrf")
TRANSFORMER = (
    DATA
    + """testing:
    beam_size: {beam}
    beam_alpha: 1.0
    batch_size: 64
    batch_type: sentence
    eval_metrics: []
    max_output_length: {longest}
training:
    optimizer: adam
    adam_betas: [0.9, 0.98]
    learning_rate: {learning_rate}
    learning_rate_warmup: {warmup}
    scheduling: warmupinversesquareroot
    label_smoothing: 0.1
    clip_grad_norm: 1.0
    batch_size: {batch_tokens}
    batch_type: token
    normalization: tokens
    epochs: {never}
    updates: {never}
    validation_freq: {validation}
    logging_freq: 50
    early_stopping_metric: loss
    overwrite: true
    print_valid_sents: [0]
    keep_best_ckpts: 2
model:
    initializer: xavier_uniform
    embed_initializer: xavier_uniform
    tied_embeddings: true
    tied_softmax: true
    encoder: {{type: transformer, num_layers: 4, num_heads: 4, hidden_size: 128, ff_size: 256,
              dropout: {dropout}, layer_norm: pre, embeddings: {{embedding_dim: 128, scale: true}}}}
    decoder: {{type: transformer, num_layers: 4, num_heads: 4, hidden_size: 128, ff_size: 256,
              dropout: {dropout}, layer_norm: pre, embeddings: {{embedding_dim: 128, scale: true}}}}
"""
)
ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}


class Transformer(JoeyNMT):
    """JoeyNMT with its Transformer, stopped by processor time."""

    def race(self, minutes: Sequence[float]) -> Iterator[tuple[float, list[str]]]:
        """Yield the processor minutes and the translations at the end of each budget."""
        options = self._options
        config = self._configure_race("model-of-race", beam=1)
        command = [self._python, "-m", "joeynmt", "train", config, "--skip-test"]
        model = self._work / "model-of-race"
        with (self._work / "race.log").open("w") as log:
            process = subprocess.Popen(
                command, cwd=self._work, env=os.environ | ONE_THREAD, stdout=log, stderr=log
            )
            spent = []
            try:
                for budget in minutes:
                    while (seconds := processor_seconds(process.pid)) < 60 * budget:
                        if process.poll() is not None:
                            sys.exit(f"error: JoeyNMT ended; see {log.name}")
                        time.sleep(1)
                    copy = self._work / f"translate-{budget:g}"
                    copy.mkdir(exist_ok=True)
                    shutil.copy((model / "best.ckpt").resolve(), copy / "best.ckpt")
                    spent.append(seconds / 60)
            finally:
                process.kill()
                process.wait()
        source = (self._work / f"{options.test}.{options.source}").read_text(encoding="utf-8")
        for budget, used in zip(minutes, spent, strict=True):
            config = self._configure_race(f"translate-{budget:g}", beam=5)
            output = self._run("-m", "joeynmt", "translate", config, text=source).stdout
            yield used, output.removesuffix("\n").split("\n")

    def _configure_race(self, model: str, *, beam: int) -> str:
        return self._configure(
            TRANSFORMER,
            model=model,
            beam=beam,
            longest=40 if beam == 1 else 60,  # else its first validation takes minutes
            seed=self._options.seed,
            never=WITHOUT_END,
            validation=self._options.validation,
            warmup=self._options.warmup,
            learning_rate=self._options.learning_rate,
            dropout=self._options.dropout,
            batch_tokens=self._options.batch_tokens,
        )


def processor_seconds(pid: int) -> float:
    """Return the processor time of a process and of its children that have ended."""
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")


def train_seq2seq(
    options: argparse.Namespace, minutes: Sequence[float]
) -> Iterator[tuple[float, list[str]]]:
    """Train a model for each budget; yield processor minutes and translations of the test set."""
    source, target = options.source, options.target
    for budget in minutes:
        runs = options.work / "runs"
        name = f"{options.data.name}-{source}-{target}-{budget:g}-{options.seed}"
        files = [
            f"data.{key}=[{part}.{source}.gz,{part}.{target}.gz]"
            for key, part in (("train", "train"), ("valid", options.valid))
        ]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        call(
            *(
                "train.py",
                "experiment=best",
                "data=files",
                f"data.root={options.data}",
                *files,
                "training.max_epochs=null",
            ),
            *(f"training.max_minutes={budget}", "training.threads=1", f"seed={options.seed}"),
            *(f"checkpoint_dir={runs}", f"run_name={name}", "overwrite=true", *options.override),
        )
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        used = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        output = options.work / f"{name}.hyp"
        call(
            *("translate.py", f"checkpoint={runs / name}", "decoding.beam_size=5"),
            *(f"input={options.data / f'{options.test}.{source}.gz'}", f"output={output}"),
        )
        text = output.read_text(encoding="utf-8")
        yield used / 60, text.removesuffix("\n").split("\n")


def call(*arguments: str) -> None:
    done = subprocess.run(
        [sys.executable, *arguments], cwd=ROOT, env=os.environ | ONE_THREAD, check=False
    )
    if done.returncode:
        sys.exit(f"error: {arguments[0]} failed; its messages are above")


def references(options: argparse.Namespace) -> list[str]:
    content = gzip.decompress((options.data / f"{options.test}.{options.target}.gz").read_bytes())
    return content.decode("utf-8").removesuffix("\n").split("\n")


def run(options: argparse.Namespace) -> None:
    options.work.mkdir(parents=True, exist_ok=True)
    minutes = sorted(options.minutes)
    if options.system == "seq2seq":
        found = train_seq2seq(options, minutes)
    else:
        peer = Transformer(options)
        peer.prepare()
        found = peer.race(minutes)
    is_new = not options.table.exists()
    with options.table.open(
        "a", encoding="utf-8", buffering=1
    ) as file:  # a row is there when it is known
        writer = csv.writer(file)
        if is_new:
            writer.writerow(COLUMNS)
        for budget, (used, translations) in zip(minutes, found, strict=True):
            bleu = sacrebleu.corpus_bleu(translations, [references(options)]).score
            chrf = sacrebleu.corpus_chrf(translations, [references(options)]).score
            corpus = f"{options.data.name} {options.source}-{options.target}"
            row = (corpus, options.system, options.seed, budget, f"{used:.1f}", f"{bleu:.2f}")
            writer.writerow((*row, f"{chrf:.2f}"))
            print(*row, f"{chrf:.2f}")


def chart(options: argparse.Namespace) -> None:
    """Draw the BLEU of each system over the minutes, a panel for each corpus."""
    with options.table.open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    corpora = list(dict.fromkeys(row["corpus"] for row in rows))
    figure = Figure(figsize=(7, 3), layout="constrained")
    panels = figure.subplots(1, len(corpora), squeeze=False, sharey=True)[0]
    for axes, corpus in zip(panels, corpora, strict=True):
        for system, color in (("seq2seq", "#0072b2"), ("joeynmt", "#d55e00")):
            own = [row for row in rows if (row["corpus"], row["system"]) == (corpus, system)]
            if not own:
                continue
            points = sorted((float(row["minutes"]), float(row["bleu"])) for row in own)
            budgets = sorted({minutes for minutes, _ in points})
            means = [
                sum(scores) / len(scores)
                for budget in budgets
                if (scores := [bleu for minutes, bleu in points if minutes == budget])
            ]
            label = {"seq2seq": "seq2seq, GRU", "joeynmt": "JoeyNMT, Transformer-Tiny"}[system]
            axes.plot(budgets, means, color=color, label=label)
            axes.plot(*zip(*points, strict=True), "o", color=color, markersize=3)
        name, source, target = re.split("[ -]", corpus)
        title = f"{name.capitalize()} {LANGUAGES[source]}-{LANGUAGES[target]}"
        axes.set_title(title, fontsize=9)
        axes.set_xlabel("minutes of one thread", fontsize=9)
        axes.tick_params(labelsize=8)
        axes.grid(color="#dddddd", linewidth=0.6)
        axes.spines[["top", "right"]].set_visible(False)
        axes.set_xticks(sorted({float(row["minutes"]) for row in rows if row["corpus"] == corpus}))
    panels[0].set_ylabel("BLEU", fontsize=9)
    panels[0].set_ylim(0, None)  # of all panels
    lines = panels[0].get_legend_handles_labels()
    figure.legend(*lines, loc="outside upper center", ncols=2, fontsize=9, frameon=False)
    figure.savefig(options.table.with_suffix(".png"), dpi=200)


def parse(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("task", choices=("run", "chart"))
    parser.add_argument("--system", choices=("seq2seq", "joeynmt"), default="seq2seq")
    parser.add_argument("--data", type=Path, help="folder of the corpus")
    parser.add_argument("--work", type=Path, default=Path(tempfile.gettempdir(), "race"))
    parser.add_argument("--table", type=Path, default=ROOT / "docs" / "race.csv")
    parser.add_argument("--source", default="de", help="source language (default: de)")
    parser.add_argument("--target", default="en", help="target language (default: en)")
    parser.add_argument("--valid", default="val", help="validation set (default: val)")
    parser.add_argument("--test", default="test_2016_flickr", help="(default: %(default)s)")
    parser.add_argument("--minutes", type=float, nargs="+", default=[5, 15, 30, 60])
    parser.add_argument("--seed", type=int, default=1)
    joeynmt = (
        ("validation", 300, "updates between validations"),
        ("warmup", 400, "updates of warm-up"),
        ("batch-tokens", 1024, "tokens per batch"),
        ("learning-rate", 0.002, "highest learning rate"),
        ("dropout", 0.1, "dropout"),
    )
    for name, default, meaning in joeynmt:
        text = f"JoeyNMT's {meaning} (default: {default})"
        parser.add_argument(f"--{name}", type=type(default), default=default, help=text)
    parser.add_argument("--override", nargs="*", default=[], help="other keys of train.py")
    options = parser.parse_args(argv)
    options.work = options.work.resolve()
    return options


def main(argv: Sequence[str] | None = None) -> None:
    options = parse(argv)
    chart(options) if options.task == "chart" else run(options)


if __name__ == "__main__":
    main()
