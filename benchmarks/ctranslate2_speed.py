"""Measure CTranslate2 4.8.5 with a small Transformer, as the peer of export_speed.py.

    python benchmarks/ctranslate2_speed.py --size tiny --precision int8 --beam 5

Its weights are random, which does not change its speed. 1,000 sources have 16.2 tokens on average
and each translation has 16, as with the test set of Multi30k. The first call installs CTranslate2
into an environment in --work. Prints the speed of the faster of two settings: a worker for each
thread, or one worker with all threads.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
import venv
from pathlib import Path
from typing import Any

REQUIREMENTS = ("ctranslate2==4.8.5", "numpy")
SIZES = {"tiny": ((4, 4), 128, 256, 4), "marian": ((6, 2), 256, 1536, 8)}
"""Layers of encoder and decoder, model size, size of the feed-forward layers, and heads: the Tiny
Transformer of Wu et al. 2021, as in race.py, and Marian's tiny one."""
VOCABULARY = 8000
NUM_SENTENCES = 1000
SOURCE_LENGTH, TARGET_LENGTH = 16.2, 16


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", choices=SIZES, default="tiny")
    parser.add_argument("--precision", choices=("float32", "int8"), default="float32")
    parser.add_argument("--beam", type=int, default=1)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--repeats", type=int, default=5)
    work = Path(tempfile.gettempdir()) / "ctranslate2-peer"
    parser.add_argument("--work", type=Path, default=work, help=f"default: {work}")
    options = parser.parse_args()
    python = options.work / "venv" / "bin" / "python"
    if sys.prefix != str(options.work / "venv"):
        if not (options.work / "ready").exists():
            venv.create(options.work / "venv", with_pip=True, clear=True)
            subprocess.run([python, "-m", "pip", "install", "--quiet", *REQUIREMENTS], check=True)
            (options.work / "ready").touch()
        sys.exit(subprocess.run([python, *sys.argv]).returncode)
    settings = {(options.threads, 1), (1, options.threads)}
    speed = max(measure(options, workers, threads) for workers, threads in settings)
    name = f"CTranslate2 {options.size} {options.precision}"
    print(f"{name}, beam {options.beam}: {speed:.1f} sentences/s")


def measure(options: argparse.Namespace, workers: int, threads: int) -> float:
    """Return the sentences per second of the fastest of some runs."""
    import ctranslate2
    import numpy as np

    path = options.work / options.size
    if not path.exists():
        write_model(path, *SIZES[options.size])
    translator = ctranslate2.Translator(
        str(path),
        compute_type=options.precision,
        inter_threads=workers,
        intra_threads=threads,
    )
    random = np.random.default_rng(0)
    lengths = np.maximum(random.poisson(SOURCE_LENGTH, NUM_SENTENCES), 1)
    sources = [[f"token{i}" for i in random.integers(3, VOCABULARY, each)] for each in lengths]
    sources.sort(key=len)
    times = []
    for _ in range(options.repeats):
        started = time.perf_counter()
        translator.translate_batch(
            sources,
            beam_size=options.beam,
            max_batch_size=options.batch_size,
            min_decoding_length=TARGET_LENGTH,
            max_decoding_length=TARGET_LENGTH,
        )
        times.append(time.perf_counter() - started)
    return NUM_SENTENCES / min(times)


def write_model(path: Path, layers: tuple[int, int], size: int, inner: int, heads: int) -> None:
    """Write a Transformer with random weights in CTranslate2's format."""
    import numpy as np
    from ctranslate2.specs import transformer_spec

    random = np.random.default_rng(1)

    def weights(outputs: int, inputs: int) -> Any:
        return (random.standard_normal((outputs, inputs)) / inputs**0.5).astype(np.float32)

    def linear(layer: Any, outputs: int, inputs: int) -> None:
        layer.weight, layer.bias = weights(outputs, inputs), np.zeros(outputs, np.float32)

    def norm(layer: Any) -> None:
        layer.gamma, layer.beta = np.ones(size, np.float32), np.zeros(size, np.float32)

    spec = transformer_spec.TransformerSpec.from_config(layers, heads, pre_norm=True)
    encoder, decoder = spec.encoder, spec.decoder
    for part, embeddings in ((encoder, encoder.embeddings[0]), (decoder, decoder.embeddings)):
        embeddings.weight = weights(VOCABULARY, size)
        part.scale_embeddings = True
        part.position_encodings.encodings = np.zeros((512, size), np.float32)
        norm(part.layer_norm)
        for layer in part.layer:
            for attention in (layer.self_attention, getattr(layer, "attention", None)):
                if attention is not None:
                    norm(attention.layer_norm)
                    outputs = (
                        [3 * size, size] if len(attention.linear) == 2 else [size, 2 * size, size]
                    )
                    for each, number in zip(attention.linear, outputs, strict=True):
                        linear(each, number, size)
            norm(layer.ffn.layer_norm)
            linear(layer.ffn.linear_0, inner, size)
            linear(layer.ffn.linear_1, size, inner)
    linear(decoder.projection, VOCABULARY, size)
    tokens = ["<unk>", "<s>", "</s>", *(f"token{i}" for i in range(3, VOCABULARY))]
    spec.register_source_vocabulary(tokens)
    spec.register_target_vocabulary(tokens)
    spec.validate()
    spec.optimize()
    path.mkdir(parents=True)
    spec.save(str(path))


if __name__ == "__main__":
    main()
