"""What data cost: the way from text to ids, the start of a training, padding.

    python benchmarks/data_speed.py encoding data=multi30k data.root=../shared/data/multi30k
    python benchmarks/data_speed.py start data=multi30k data.root=../shared/data/multi30k
    python benchmarks/data_speed.py large ../shared/data/tatoeba
    python benchmarks/data_speed.py padding data=multi30k data.root=../shared/data/multi30k

`encoding` goes from the training text to cached ids, with one core and with all that this process
may use. `start` calls train.py and stops it after the first update; the cache is filled before.
`large` does so with a corpus that repeats a small one up to --pairs, in --directory, which it
leaves behind; its ids are copied from the small one's, by the same writer, as encoding would take
minutes. Each figure is the median of --repeats calls, with the processor's time beside the
clock's, since other programs slow the clock alone. Further arguments are those of train.py.
"""

import argparse
import gzip
import itertools
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from seq2seq.config.schema import TrainConfig, load_config
from seq2seq.data import (
    Batches,
    Corpus,
    OnInvalid,
    Pair,
    TextFilesCorpus,
    Tokenizer,
    TokenizerPair,
    cached_tokenizers,
    encode_corpus,
    load_corpora,
)

ROOT = Path(__file__).parents[1]
LANGUAGES = ("de", "en")
FIRST_UPDATE = """
import json, os, resource, runpy, sys, time
from seq2seq.training.updates import Updater

def make_and_stop(self, *arguments, make=Updater.make, **options):
    make(self, *arguments, **options)
    used = resource.getrusage(resource.RUSAGE_SELF)
    found = {"now": time.time(), "processor": used.ru_utime + used.ru_stime,
             "peak_gigabytes": used.ru_maxrss / 2**20}
    print(json.dumps(found), flush=True)
    os._exit(0)

Updater.make = make_and_stop
runpy.run_path("train.py", run_name="__main__")
"""
"""Runs train.py up to its first update and prints what that took."""


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=3)
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("encoding", help="from text to cached ids")
    commands.add_parser("start", help="from the command to the first update")
    large = commands.add_parser("large", help="the same with a large corpus, from the cache")
    large.add_argument("text", type=Path, help="has {train,valid}.{de,en}.gz")
    large.add_argument("--pairs", type=int, default=10_000_000)
    large.add_argument(
        "--directory", type=Path, default=Path(tempfile.gettempdir(), "large-corpus")
    )
    commands.add_parser("padding", help="positions computed for nothing")
    arguments, overrides = parser.parse_known_args()
    if arguments.command == "encoding":
        measure_encoding(overrides, arguments.repeats)
    elif arguments.command == "start":
        measure_start(overrides, arguments.repeats)
    elif arguments.command == "large":
        overrides = make_large(
            arguments.text,
            arguments.directory.resolve(),
            num_pairs=arguments.pairs,
            options=overrides,
        )
        measure_start(overrides, arguments.repeats)
    else:
        measure_padding(overrides)


def measure_encoding(overrides: list[str], repeats: int) -> None:
    """Print pairs a minute with one core and with all that this process may use."""
    config = load_config(*overrides)
    corpus = load_corpora(config.data).train
    with tempfile.TemporaryDirectory() as folder:
        tokenizers = cached_tokenizers(config.tokenizer, corpus, folder)
    all_cores = os.sched_getaffinity(0)
    for cores in {1: {min(all_cores)}, len(all_cores): all_cores}.values():
        os.sched_setaffinity(0, cores)
        runs = [encode_once(corpus, tokenizers, config) for _ in range(repeats)]
        clock, processor = map(statistics.median, zip(*runs, strict=True))
        print(
            f"{len(cores)} cores: {corpus.num_lines} pairs in {clock:.2f} s (processor "
            f"{processor:.2f} s): {60 * corpus.num_lines / clock:,.0f} pairs a minute"
        )


def encode_once(
    corpus: Corpus, tokenizers: TokenizerPair, config: TrainConfig
) -> tuple[float, float]:
    """Return how long encoding into an empty cache takes, by the clock and the processor."""
    with tempfile.TemporaryDirectory() as folder:
        config.data.cache_dir = folder
        clock, processor = time.perf_counter(), time.process_time()
        encode_corpus(corpus, tokenizers, config.data)
        return time.perf_counter() - clock, time.process_time() - processor


def measure_start(overrides: list[str], repeats: int) -> None:
    """Print how long it takes until the first update is made."""
    first_update(overrides)  # fills the cache
    runs = [first_update(overrides) for _ in range(repeats)]
    clock, processor, gigabytes = map(statistics.median, zip(*runs, strict=True))
    print(
        f"first update after {clock:.2f} s (processor {processor:.2f} s), "
        f"resident memory at most {gigabytes:.2f} GB"
    )


def first_update(overrides: list[str]) -> tuple[float, float, float]:
    """Call train.py; return seconds by the clock and the processor, and gigabytes."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-c", FIRST_UPDATE, *overrides, f"checkpoint_dir='{folder}'"]
        started = time.time()
        done = subprocess.run(command, cwd=ROOT, capture_output=True)
    if done.returncode:
        raise SystemExit(done.stderr.decode())
    found = json.loads(done.stdout.splitlines()[-1])
    return found["now"] - started, found["processor"], found["peak_gigabytes"]


def make_large(text: Path, directory: Path, *, num_pairs: int, options: Sequence[str]) -> list[str]:
    """Write a corpus that repeats a small one, and its cache; return what train.py is told."""
    small, valid = (
        [text.resolve() / f"{part}.{language}.gz" for language in LANGUAGES]
        for part in ("train", "valid")
    )
    for path in (*small, *valid):
        if not path.is_file():
            sys.exit(f"error: {path}: no such file; give the folder that holds the small corpus")
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
    """Write the lines of a .gz file again and again until there are so many."""
    lines = gzip.decompress(path.read_bytes()).splitlines(keepends=True)
    with copies.open("wb") as file:
        for written in range(0, num_lines, len(lines)):
            file.write(b"".join(lines[: num_lines - written]))


def fill_cache(config: TrainConfig, small: Sequence[Path]) -> None:
    """Put the ids of a corpus that repeats these files where train.py looks for them."""
    large = load_corpora(config.data).train
    invalid = OnInvalid.error
    pairs = list(TextFilesCorpus("train", paths=small, empty_lines=invalid, invalid_utf8=invalid))
    copies = Copies(pairs, fingerprint=large.fingerprint, num_lines=large.num_lines)
    once = Copies(pairs, fingerprint=large.fingerprint, num_lines=len(pairs))
    tokenizers = cached_tokenizers(config.tokenizer, once, config.data.cache_dir)
    source, target = Remembering(tokenizers.source), Remembering(tokenizers.target)
    joint = tokenizers.source is tokenizers.target
    remembering = TokenizerPair(source, source if joint else target)
    encode_corpus(copies, remembering, config.data)


@dataclass
class Copies:
    """The same pairs over and over again, under the name of a corpus in files."""

    pairs: list[Pair]
    fingerprint: str
    num_lines: int
    name = "train"

    def lines(self) -> Iterator[Pair]:
        return itertools.islice(itertools.cycle(self.pairs), self.num_lines)

    __iter__ = lines


class Remembering:
    """A tokenizer that encodes each line once."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self.state = tokenizer.state
        self._tokenizer = tokenizer
        self._ids: dict[str, list[int]] = {}

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        new = list(set(lines) - self._ids.keys())
        self._ids |= zip(new, self._tokenizer.encode(new), strict=True)
        return [self._ids[line] for line in lines]


def measure_padding(overrides: list[str]) -> None:
    """Print the share of padding among all positions of an epoch, source and target."""
    config = load_config(*overrides)
    corpus = load_corpora(config.data).train
    tokenizers = cached_tokenizers(config.tokenizer, corpus, config.data.cache_dir)
    encoded = encode_corpus(corpus, tokenizers, config.data)
    batching = config.training.batching
    batches = Batches(encoded, config=batching, seed=config.seed, rank=0, world_size=1).epoch(0)
    real = computed = 0
    for rows in batches:
        for lengths in (encoded.source_lengths[rows] + 1, encoded.target_lengths[rows] + 1):  # EOS
            real += int(lengths.sum())
            computed += len(rows) * int(lengths.max())
    print(
        f"{len(batches)} batches of {batching.size} {batching.unit.name}: "
        f"{1 - real / computed:.1%} of the positions are padding"
    )


if __name__ == "__main__":
    main()
