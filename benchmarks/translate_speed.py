"""Measure translation in sentences per second, against peers, and the costs of its parts.

    python benchmarks/translate_speed.py checkpoint=checkpoints/NAME \
        --peer-command "python benchmarks/joeynmt.py translate --data DIR --beam 5"

Times are those of the translator in one process, without loading. The cases of a table run in
turn, round by round, so that drifts of the machine's speed affect all of them; medians are printed.
Arguments with "=" are those of translate.py: input= and reference= are the test set, by default
that of the checkpoint's training data; decoding.X= configures the beam search; batch_size= holds
for all tables but `speed`, which tries several. Each table chooses the precisions itself.
"""

import argparse
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.translate_cases import (
    Case,
    Command,
    WithoutAttention,
    ask_peer,
    read_test_set,
    time_in_turn,
)
from seq2seq.cli.translate_config import TranslateConfig, load_translate_config
from seq2seq.evaluation.measures import score_texts
from seq2seq.evaluation.metrics import DEFAULT_RULE, signature
from seq2seq.inference.translator import Translator
from seq2seq.kernels.products import use_kernels
from seq2seq.runtime.devices import Precision
from seq2seq.runtime.numerics import choose_numerics
from seq2seq.runtime.process import keep_freed_memory
from seq2seq.search.config import BeamConfig, DecodingConfig, EarlyStopping, GreedyConfig

BEAM_SIZES = (1, 5, 10, 20)
NUM_GROUPS = 5
"""Groups of sentences of similar length."""
NUM_SINGLE = 100
"""Sentences translated one by one."""


@dataclass(frozen=True, kw_only=True)
class Bench:
    """The translators, the test set and the options of a run of this program."""

    config: TranslateConfig
    translators: Mapping[Precision, Translator]
    lines: Sequence[str]
    references: Sequence[str]
    beam: BeamConfig
    options: argparse.Namespace

    def case(self, decoding: DecodingConfig, precision: Precision = Precision.fp32) -> Case:
        """Return the case that translates all lines."""
        return Case(self.translators[precision], self.lines, decoding, self.config.batch_size)

    def times(self, runs: Sequence[Callable[[], object]]) -> list[float]:
        """Return the median seconds of each run."""
        times = time_in_turn(runs, repeats=self.options.repeats)
        return [statistics.median(seconds) for seconds in times]


def main(argv: Sequence[str] | None = None) -> None:
    options, overrides = parse(argv)
    keep_freed_memory()
    bench = prepare(options, overrides)
    warmup = [bench.case(GreedyConfig(), precision) for precision in bench.translators]
    time_in_turn(warmup, repeats=1)
    for table in options.only:
        TABLES[table](bench)


def parse(argv: Sequence[str] | None) -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only",
        type=lambda names: names.split(","),
        default=[*TABLES],
        help=f"tables to print (default: {','.join(TABLES)})",
    )
    parser.add_argument("--repeats", type=int, default=5, help="runs per median (default: 5)")
    parser.add_argument("--lines", type=int, help="use only the first lines of the test set")
    parser.add_argument(
        "--batch-sizes",
        type=lambda sizes: [int(size) for size in sizes.split(",")],
        default=[16, 32, 64, 128, 256],
        help="batch sizes that `speed` tries (default: 16,32,64,128,256)",
    )
    parser.add_argument(
        "--peer-command",
        action="append",
        default=[],
        help="shell command that prints 'NAME, beam SIZE: X sentences/s'; may be given repeatedly",
    )
    options, overrides = parser.parse_known_args(argv)
    if unknown := set(options.only) - set(TABLES):
        parser.error(f"--only={','.join(sorted(unknown))} must name tables of {','.join(TABLES)}")
    return options, overrides


def prepare(options: argparse.Namespace, overrides: Sequence[str]) -> Bench:
    """Read the test set and the checkpoint; print the conditions of the measurement."""
    config = load_translate_config(*overrides)
    if not isinstance(config.decoding, BeamConfig):
        sys.exit(f"error: decoding={config.decoding.name} must be beam; leave it out")
    use_kernels(config.kernels)
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    pairs = read_test_set(config)[: options.lines]
    on_cuda = choose_numerics(config.device, Precision.fp32).device.type == "cuda"
    precisions = (Precision.fp32, Precision.bf16 if on_cuda else Precision.int8)
    print(
        f"{torch.cuda.get_device_name() if on_cuda else 'CPU'}, {torch.get_num_threads()} threads, "
        f"torch {torch.__version__}, {len(pairs)} lines, medians of {options.repeats}"
    )
    return Bench(
        config=config,
        translators={
            precision: Translator.load(config.checkpoint, device=config.device, precision=precision)
            for precision in precisions
        },
        lines=[line for line, _ in pairs],
        references=[reference for _, reference in pairs],
        beam=config.decoding,
        options=options,
    )


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    print(f"\n{title}\n\n| {' | '.join(columns)} |\n|---|{'--:|' * (len(columns) - 1)}")
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)


def measure_speed(bench: Bench) -> None:
    """Print speed and BLEU of each search at its best batch size, and its ratio to the peers."""
    peers = [ask_peer(command) for command in bench.options.peer_command]
    cases = best_cases(bench)
    times = bench.times(list(cases.values()))
    peers += [ask_peer(command) for command in bench.options.peer_command]
    rows, ratios = [], []
    for (name, case), seconds in zip(cases.items(), times, strict=True):
        speed = len(case.lines) / seconds
        bleu = score_texts(case(), bench.references)["bleu"]
        rows.append((name, f"{speed:.1f}", f"{case.batch_size}", f"{bleu:.2f}"))
        for peer in peers:
            if peer.beam_size == case.beam_size:
                ratios.append((name, peer.name, f"{peer.speed:.1f}", f"{speed / peer.speed:.2f}"))
    title = f"Speed and BLEU ({signature(DEFAULT_RULE)})"
    print_table(title, ("search", "sentences/s", "batch", "BLEU"), rows)
    if ratios:
        columns = ("search", "peer", "peer's sentences/s", "ratio")
        print_table("Comparison with peers", columns, ratios)


def best_cases(bench: Bench) -> dict[str, Case]:
    """Return each search in each precision, with the batch size that was fastest in one round.

    The reported speed is measured again, since the fastest of several trials is biased.
    """
    searches: dict[str, DecodingConfig] = {"greedy": GreedyConfig()}
    for stop in EarlyStopping:
        name = f"beam {bench.beam.beam_size}, early_stopping={stop.value}"
        searches[name] = replace(bench.beam, early_stopping=stop)
    cases = {}
    for name, decoding in searches.items():
        for precision in bench.translators:
            case = bench.case(decoding, precision)
            trials = [replace(case, batch_size=size) for size in bench.options.batch_sizes]
            times = time_in_turn(trials, repeats=1)
            cases[f"{name}, {precision.value}"] = trials[times.index(min(times))]
    return cases


def measure_attention(bench: Bench) -> None:
    """Print the time of beam search with and without attention weights."""
    cases = [bench.case(bench.beam, precision) for precision in bench.translators]
    runs = [run for case in cases for run in (case, WithoutAttention(case))]
    times = time_in_turn(runs, repeats=bench.options.repeats)
    rows = []
    for precision, kept, dropped in zip(bench.translators, times[::2], times[1::2], strict=True):
        ratios = [with_it / without for with_it, without in zip(kept, dropped, strict=True)]
        medians = (f"{statistics.median(seconds):.3f}" for seconds in (kept, dropped))
        rows.append((precision.value, *medians, f"{statistics.median(ratios):.3f}"))
    title = f"Attention weights: beam {bench.beam.beam_size}, batch {bench.config.batch_size}"
    print_table(title, ("precision", "with, s", "without, s", "ratio"), rows)


def measure_beam_sizes(bench: Bench) -> None:
    """Print the time of a sentence for several beam sizes."""
    cases = [bench.case(replace(bench.beam, beam_size=size)) for size in BEAM_SIZES]
    print_growth(bench, list(zip(BEAM_SIZES, cases, strict=True)), "beam size")


def measure_lengths(bench: Bench) -> None:
    """Print the time of a sentence for groups of sentences by source length, EOS included."""
    case = bench.case(bench.beam)
    by_length = sorted((case.translator.num_tokens(line) + 1, line) for line in bench.lines)
    bounds = [len(by_length) * group // NUM_GROUPS for group in range(NUM_GROUPS + 1)]
    groups = (zip(*by_length[start:end], strict=True) for start, end in pairwise(bounds))
    cases = [(statistics.mean(sizes), replace(case, lines=lines)) for sizes, lines in groups]
    print_growth(bench, cases, "source tokens")


def print_growth(bench: Bench, cases: Sequence[tuple[float, Case]], quantity: str) -> None:
    """Print the time of a sentence and its ratio to a quantity, which should not grow with it."""
    rows = []
    times = bench.times([case for _, case in cases])
    for (num_units, case), seconds in zip(cases, times, strict=True):
        per_sentence = seconds / len(case.lines)
        milliseconds = f"{1e3 * per_sentence:.2f}", f"{1e3 * per_sentence / num_units:.3f}"
        rows.append((f"{num_units:.4g}", f"{1 / per_sentence:.1f}", *milliseconds))
    title = f"Time by {quantity}: beam search, fp32, batch {bench.config.batch_size}"
    columns = (quantity, "sentences/s", "ms per sentence", f"ms per sentence / {quantity}")
    print_table(title, columns, rows)


def measure_start(bench: Bench) -> None:
    """Print the time of one sentence in this process, and of the whole command."""
    cases = [bench.case(GreedyConfig(), precision) for precision in bench.translators]
    lines = [[line] for line in bench.lines[:NUM_SINGLE]]
    warm = bench.times([replace(case, lines=line) for line in lines for case in cases])
    commands = bench.times([Command(bench.config, precision) for precision in bench.translators])
    rows = []
    for index, precision in enumerate(bench.translators):
        single = warm[index :: len(cases)]
        figures = (statistics.median(single), max(single), commands[index])
        rows.append((precision.value, *(f"{1e3 * seconds:.1f}" for seconds in figures)))
    title = f"One sentence, greedy: {len(lines)} sentences in a loaded process; translate.py"
    print_table(title, ("precision", "median, ms", "maximum, ms", "translate.py, ms"), rows)


TABLES = {
    "speed": measure_speed,
    "attention": measure_attention,
    "beam": measure_beam_sizes,
    "length": measure_lengths,
    "start": measure_start,
}

if __name__ == "__main__":
    main()
