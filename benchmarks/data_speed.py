"""Measure the costs of data: encoding and the start of a training.

    python benchmarks/data_speed.py encoding data=multi30k data.root=DIR
    python benchmarks/data_speed.py start data=multi30k data.root=DIR
    python benchmarks/data_speed.py large DIR

`encoding` converts the training text to cached ids, with one core and with all available cores.
`start` measures train.py from the command to the first update, with a filled cache. `large` does
the same with a corpus that repeats a small one, and measures the size of its cache and the order of
an epoch; its files stay in --directory. Times are medians of --repeats runs; processor time is
printed beside elapsed time, which other programs prolong. Arguments with "=" are those of train.py.
"""

import argparse
import gzip
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import cycle, islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from seq2seq.config.schema import TrainConfig, load_config
from seq2seq.data.batching import Batches
from seq2seq.data.cache import cached_tokenizers, encode_corpus
from seq2seq.data.corpus import Corpus, load_corpora
from seq2seq.data.files import read_files
from seq2seq.data.tokenizers.interface import Tokenizer, TokenizerPair

ROOT = Path(__file__).parents[1]
LANGUAGES = ("de", "en")
FIRST_UPDATE = """
import json, os, resource, runpy, sys, time
from seq2seq.training.updates import Updater

def make_and_stop(self, *arguments, make=Updater.update_weights, **options):
    make(self, *arguments, **options)
    used = resource.getrusage(resource.RUSAGE_SELF)
    usage = {"now": time.time(), "processor": used.ru_utime + used.ru_stime,
             "peak_gigabytes": used.ru_maxrss / 2**20}
    print(json.dumps(usage), flush=True)
    os._exit(0)

Updater.update_weights = make_and_stop
runpy.run_path("train.py", run_name="__main__")
"""
"""Run train.py until its first update; print the time, processor seconds and peak memory."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=3, help="runs per median (default: 3)")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("encoding", help="time from text to cached ids")
    commands.add_parser("start", help="time from the command to the first update")
    large = commands.add_parser("large", help="the same time for a large corpus")
    large.add_argument("text", type=Path, help="directory with {train,valid}.{de,en}.gz")
    large.add_argument(
        "--pairs", type=int, default=10_000_000, help="size of the corpus (default: 10 million)"
    )
    large.add_argument(
        "--directory",
        type=Path,
        default=Path(tempfile.gettempdir(), "large-corpus"),
        help="directory of the large corpus and its cache (default: %(default)s)",
    )
    arguments, overrides = parser.parse_known_args()
    if arguments.command == "encoding":
        measure_encoding(overrides, arguments.repeats)
    elif arguments.command == "start":
        measure_start(overrides, arguments.repeats)
    else:
        overrides = make_large(
            arguments.text,
            arguments.directory.resolve(),
            num_pairs=arguments.pairs,
            options=overrides,
        )
        measure_order(overrides, arguments.repeats)
        measure_start(overrides, arguments.repeats)


def measure_encoding(overrides: list[str], repeats: int) -> None:
    """Print the pairs per minute with one core and with all cores of this process."""
    config = load_config(*overrides)
    corpus = load_corpora(config.data).train
    with tempfile.TemporaryDirectory() as folder:
        tokenizers = cached_tokenizers(config.tokenizer, corpus, folder)
    all_cores = os.sched_getaffinity(0)
    for cores in {1: {min(all_cores)}, len(all_cores): all_cores}.values():
        os.sched_setaffinity(0, cores)
        runs = [encode_once(corpus, tokenizers, config) for _ in range(repeats)]
        elapsed, processor = map(statistics.median, zip(*runs, strict=True))
        print(
            f"{len(cores)} cores: {corpus.num_lines} pairs in {elapsed:.2f} s (processor "
            f"{processor:.2f} s): {60 * corpus.num_lines / elapsed:,.0f} pairs per minute"
        )


def encode_once(
    corpus: Corpus, tokenizers: TokenizerPair, config: TrainConfig
) -> tuple[float, float]:
    """Encode into an empty cache; return elapsed and processor seconds."""
    with tempfile.TemporaryDirectory() as folder:
        config.data.cache_dir = folder
        started, processor = time.perf_counter(), time.process_time()
        encode_corpus(corpus, tokenizers, config.data)
        return time.perf_counter() - started, time.process_time() - processor


def measure_order(overrides: list[str], repeats: int) -> None:
    """Print the size of the cached ids and the time in which an epoch is ordered."""
    config = load_config(*overrides)
    corpus = load_corpora(config.data).train
    tokenizers = cached_tokenizers(config.tokenizer, corpus, config.data.cache_dir)
    encoded = encode_corpus(corpus, tokenizers, config.data)
    folders = Path(config.data.cache_dir).glob("train-*")
    size = sum(path.stat().st_size for folder in folders for path in folder.iterdir())
    batches = Batches(
        encoded, config=config.training.batching, seed=config.seed, rank=0, world_size=1
    )
    times = []
    for _ in range(repeats):
        started = time.process_time()
        batches.epoch(0)
        times.append(time.process_time() - started)
    print(
        f"{len(encoded)} pairs: {size / 2**30:.2f} GB of cached ids, an epoch is ordered in "
        f"{statistics.median(times):.2f} s of processor time"
    )


def measure_start(overrides: list[str], repeats: int) -> None:
    """Print the time from the command to the first update, and the peak memory."""
    first_update(overrides)  # fills the cache
    runs = [first_update(overrides) for _ in range(repeats)]
    elapsed, processor, gigabytes = map(statistics.median, zip(*runs, strict=True))
    print(
        f"first update after {elapsed:.2f} s (processor {processor:.2f} s), "
        f"peak resident memory {gigabytes:.2f} GB"
    )


def first_update(overrides: list[str]) -> tuple[float, float, float]:
    """Run train.py until its first update; return elapsed and processor seconds, and gigabytes."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", FIRST_UPDATE, *overrides, f"checkpoint_dir='{folder}'"]
        started = time.time()
        done = subprocess.run(command, cwd=ROOT, capture_output=True)
    if done.returncode:
        raise SystemExit(done.stderr.decode())
    usage = json.loads(done.stdout.splitlines()[-1])
    return usage["now"] - started, usage["processor"], usage["peak_gigabytes"]


def make_large(text: Path, directory: Path, *, num_pairs: int, options: Sequence[str]) -> list[str]:
    """Write a corpus that repeats a small one, and its cache; return the overrides of train.py."""
    small, valid = (
        [text.resolve() / f"{part}.{language}.gz" for language in LANGUAGES]
        for part in ("train", "valid")
    )
    for path in (*small, *valid):
        if not path.is_file():
            sys.exit(f"error: {path}: no such file; give the directory of the small corpus")
    directory.mkdir(parents=True, exist_ok=True)
    large = [directory / f"train.{language}" for language in LANGUAGES]
    for path, copies in zip(small, large, strict=True):
        write_copies(path, copies, num_pairs)
    parts = {"train": large, "valid": valid, "test": valid}
    overrides = [f"data.{part}=[{','.join(map(str, paths))}]" for part, paths in parts.items()]
    overrides = ["data=files", *overrides, f"data.cache_dir={directory / 'cache'}", *options]
    fill_cache(load_config(*overrides), small)
    return overrides


def write_copies(path: Path, copies: Path, num_lines: int) -> None:
    """Repeat the lines of a .gz file until the copy has the given number of lines."""
    lines = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
    with copies.open("wb") as file:
        for written in range(0, num_lines, len(lines)):
            file.write(b"".join(lines[: num_lines - written]))


def fill_cache(config: TrainConfig, small: Sequence[Path]) -> None:
    """Fill the cache of a corpus that repeats small files.

    Every small line is encoded once, since encoding the large corpus would take minutes.
    """
    large = load_corpora(config.data).train
    pairs = list(read_files("train", paths=small))
    once = replace(large, num_lines=len(pairs), lines=lambda: iter(pairs))
    copies = replace(large, lines=lambda: islice(cycle(pairs), large.num_lines))
    tokenizers = cached_tokenizers(config.tokenizer, once, config.data.cache_dir)
    source, target = CachingTokenizer(tokenizers.source), CachingTokenizer(tokenizers.target)
    joint = tokenizers.source is tokenizers.target
    encode_corpus(copies, TokenizerPair(source, source if joint else target), config.data)


class CachingTokenizer:
    """A tokenizer that encodes each distinct line once."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.state, self.rules = tokenizer.state, tokenizer.rules
        self._tokenizer = tokenizer
        self._ids: dict[str, list[int]] = {}

    def __len__(self) -> int:
        return len(self._tokenizer)

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        new = list(set(lines) - self._ids.keys())
        self._ids |= zip(new, self._tokenizer.encode(new), strict=True)
        return [self._ids[line] for line in lines]


if __name__ == "__main__":
    main()
