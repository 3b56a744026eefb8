"""Measure translation in sentences per second, against peers, and the time of one sentence.

    python benchmarks/translate_speed.py checkpoint=checkpoints/NAME \
        --peer-command "python benchmarks/joeynmt.py translate --data DIR --beam 5"

Times are those of the translator in one process, without loading. The cases of a table run in
turn, round by round, so that drifts of the machine's speed affect all of them; medians are printed.
Arguments with "=" are those of translate.py: input= and reference= are the test set, by default
that of the checkpoint's training data; decoding.X= configures the beam search. The precision is
fp32, on a GPU also bf16, and several batch sizes are tried.
"""

import argparse
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.translate_cases import Case, Command, ask_peer, read_test_set, time_in_turn
from seq2seq.cli.translate_config import TranslateConfig, load_translate_config
from seq2seq.evaluation.measures import score_texts
from seq2seq.evaluation.metrics import DEFAULT_RULE, signature
from seq2seq.inference.translator import Translator
from seq2seq.runtime.devices import Precision
from seq2seq.runtime.numerics import choose_numerics
from seq2seq.runtime.process import keep_freed_memory
from seq2seq.search.config import BeamConfig, DecodingConfig, EarlyStopping, GreedyConfig

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
    measure_speed(bench)
    measure_start(bench)


def parse(argv: Sequence[str] | None) -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=int, default=5, help="runs per median (default: 5)")
    parser.add_argument("--lines", type=int, help="use only the first lines of the test set")
    parser.add_argument(
        "--batch-sizes",
        type=lambda sizes: [int(size) for size in sizes.split(",")],
        default=[16, 32, 64, 128, 256],
        help="batch sizes to try (default: 16,32,64,128,256)",
    )
    parser.add_argument(
        "--peer-command",
        action="append",
        default=[],
        help="shell command that prints 'NAME, beam SIZE: X sentences/s'; may be given repeatedly",
    )
    return parser.parse_known_args(argv)


def prepare(options: argparse.Namespace, overrides: Sequence[str]) -> Bench:
    """Read the test set and the checkpoint; print the conditions of the measurement."""
    config = load_translate_config(*overrides)
    if not isinstance(config.decoding, BeamConfig):
        sys.exit(f"error: decoding={config.decoding.name} must be beam; leave it out")
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    pairs = read_test_set(config)[: options.lines]
    on_cuda = choose_numerics(config.device, Precision.fp32).device.type == "cuda"
    precisions = (Precision.fp32, Precision.bf16) if on_cuda else (Precision.fp32,)
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


if __name__ == "__main__":
    main()
