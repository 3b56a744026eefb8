"""Sentences a second of translating, on this machine and against others, and what they cost.

    python benchmarks/translate_speed.py checkpoint=checkpoints/NAME \
        --peer-command "python ../shared/peers/joeynmt_speed.py translate --model DIR --beam 1" \
        --peer-command "python ../shared/peers/joeynmt_speed.py translate --model DIR --beam 5"

Times are taken around the translator, in one process: loading is no part of them. What a table
compares is run in turn, again and again, so that a machine whose speed drifts slows all alike;
medians are printed. Arguments with "=" are those of translate.py: input= and reference= are the
test set, Multi30k's if not given; decoding.X= rules the beam search; batch_size= holds for all
tables but `speed`, which tries several. Each table chooses its precisions itself.
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

from benchmarks.translate_cases import Case, Command, WithoutAttention, ask_peer, in_turn
from seq2seq.cli.config import TranslateConfig, load_translate_config
from seq2seq.cli.inputs import open_inputs
from seq2seq.evaluation.metrics import score
from seq2seq.inference.translator import Translator
from seq2seq.runtime.allocator import keep_freed_memory
from seq2seq.runtime.numerics import Precision, choose_numerics
from seq2seq.search import BeamConfig, DecodingConfig, EarlyStopping

ROOT = Path(__file__).parents[1]
TEST_SET = ROOT.parent / "shared" / "data" / "multi30k" / "test_2016_flickr"
BEAM_SIZES = (1, 5, 10, 20)
NUM_GROUPS = 5  # of sentences of like length
NUM_SINGLE = 100  # sentences that are translated one by one


@dataclass(frozen=True, kw_only=True)
class Bench:
    """What is measured, and with what."""

    config: TranslateConfig
    translators: Mapping[Precision, Translator]
    lines: Sequence[str]
    references: Sequence[str]
    greedy: DecodingConfig
    beam: BeamConfig
    options: argparse.Namespace

    def case(self, decoding: DecodingConfig, precision: Precision = Precision.fp32) -> Case:
        """Return what translates all lines."""
        return Case(self.translators[precision], self.lines, decoding, self.config.batch_size)

    def times(self, runs: Sequence[Callable[[], object]]) -> list[float]:
        """Return the median of the seconds that each run takes."""
        taken = in_turn(runs, repeats=self.options.repeats)
        return [statistics.median(seconds) for seconds in taken]


def main(argv: Sequence[str] | None = None) -> None:
    options, overrides = parse(argv)
    keep_freed_memory()
    bench = prepare(options, overrides)
    in_turn([bench.case(bench.greedy, precision) for precision in bench.translators], repeats=1)
    for table in options.only:
        TABLES[table](bench)


def parse(argv: Sequence[str] | None) -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", type=lambda names: names.split(","), default=[*TABLES])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--lines", type=int, help="of the test set; all of them if not given")
    parser.add_argument(
        "--batch-sizes",
        type=lambda sizes: [int(size) for size in sizes.split(",")],
        default=[16, 32, 64, 128, 256],
    )
    parser.add_argument(
        "--peer-command",
        action="append",
        default=[],
        help="prints NAME, beam SIZE: X sentences/s; is run before and after ours",
    )
    options, overrides = parser.parse_known_args(argv)
    if unknown := set(options.only) - set(TABLES):
        parser.error(f"--only {','.join(sorted(unknown))}: the tables are {','.join(TABLES)}")
    return options, overrides


def prepare(options: argparse.Namespace, overrides: Sequence[str]) -> Bench:
    """Read the test set and the checkpoint; say what is measured."""
    test_set = [f"input={TEST_SET}.de.gz", f"reference={TEST_SET}.en.gz"]
    config = load_translate_config(*test_set, *overrides)
    assert isinstance(config.decoding, BeamConfig), "leave out decoding=, or choose beam"
    if config.threads is not None:
        torch.set_num_threads(config.threads)
    with open_inputs(config) as inputs:
        pairs = [pair for window in inputs.windows(1000) for pair in window][: options.lines]
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
        greedy=load_translate_config("checkpoint=none", "decoding=greedy").decoding,
        beam=config.decoding,
        options=options,
    )


def print_table(title: str, columns: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    print(f"\n{title}\n\n| {' | '.join(columns)} |\n|---|{'--:|' * (len(columns) - 1)}")
    for row in rows:
        print(f"| {' | '.join(row)} |", flush=True)


def measure_speed(bench: Bench) -> None:
    """Print each search at its best batch size, with its BLEU, and its ratio to the peers."""
    peers = [ask_peer(command) for command in bench.options.peer_command]
    cases = best_cases(bench)
    times = bench.times(list(cases.values()))
    peers += [ask_peer(command) for command in bench.options.peer_command]
    rows, ratios = [], []
    for (name, case), seconds in zip(cases.items(), times, strict=True):
        speed = len(case.lines) / seconds
        scores = score(case(), bench.references, ter=False)
        rows.append((name, f"{speed:.1f}", f"{case.batch_size}", f"{scores.bleu:.2f}"))
        for peer in peers:
            if peer.beam_size == case.beam_size:
                ratios.append((name, peer.name, f"{peer.speed:.1f}", f"{speed / peer.speed:.2f}"))
    print_table(f"BLEU: {scores.signature}", ("search", "sentences/s", "batch", "BLEU"), rows)
    if ratios:
        print_table("Against peers", ("search", "peer", "its sentences/s", "ratio"), ratios)


def best_cases(bench: Bench) -> dict[str, Case]:
    """Return each search in each precision, with the batch size that was best in one round.

    Its speed is to be measured anew, so that it is not one that was chosen for its luck.
    """
    searches: dict[str, DecodingConfig] = {"greedy": bench.greedy}
    for stop in EarlyStopping:
        name = f"beam {bench.beam.beam_size}, early_stopping={stop.value}"
        searches[name] = replace(bench.beam, early_stopping=stop)
    found = {}
    for name, decoding in searches.items():
        for precision in bench.translators:
            case = bench.case(decoding, precision)
            trials = [replace(case, batch_size=size) for size in bench.options.batch_sizes]
            taken = in_turn(trials, repeats=1)
            found[f"{name}, {precision.value}"] = trials[taken.index(min(taken))]
    return found


def measure_attention(bench: Bench) -> None:
    """Print what it takes to keep the attention of each hypothesis, and to return it."""
    cases = [bench.case(bench.beam, precision) for precision in bench.translators]
    runs = [run for case in cases for run in (case, WithoutAttention(case))]
    taken = in_turn(runs, repeats=bench.options.repeats)
    rows = []
    for precision, kept, dropped in zip(bench.translators, taken[::2], taken[1::2], strict=True):
        ratios = [with_it / without for with_it, without in zip(kept, dropped, strict=True)]
        times = (f"{statistics.median(seconds):.3f}" for seconds in (kept, dropped))
        rows.append((precision.value, *times, f"{statistics.median(ratios):.3f}"))
    title = f"Attention returned, beam {bench.beam.beam_size}, batch {bench.config.batch_size}"
    print_table(title, ("precision", "with, s", "without, s", "ratio"), rows)


def measure_beam_sizes(bench: Bench) -> None:
    """Print what a sentence takes against the size of the beam."""
    cases = [bench.case(replace(bench.beam, beam_size=size)) for size in BEAM_SIZES]
    print_growth(bench, "hypothesis", list(zip(BEAM_SIZES, cases, strict=True)))


def measure_lengths(bench: Bench) -> None:
    """Print what a sentence takes against its length, EOS counted."""
    case = bench.case(bench.beam)
    by_length = sorted((case.translator.num_tokens(line) + 1, line) for line in bench.lines)
    bounds = [len(by_length) * group // NUM_GROUPS for group in range(NUM_GROUPS + 1)]
    groups = (zip(*by_length[start:end], strict=True) for start, end in pairwise(bounds))
    cases = [(statistics.mean(sizes), replace(case, lines=lines)) for sizes, lines in groups]
    print_growth(bench, "source token", cases)


def print_growth(bench: Bench, unit: str, cases: Sequence[tuple[float, Case]]) -> None:
    """Print the time of a sentence, and of each of its units, which is not to grow with them."""
    rows = []
    times = bench.times([case for _, case in cases])
    for (num_units, case), seconds in zip(cases, times, strict=True):
        each = seconds / len(case.lines)
        milliseconds = f"{1e3 * each:.2f}", f"{1e3 * each / num_units:.3f}"
        rows.append((f"{num_units:.4g}", f"{1 / each:.1f}", *milliseconds))
    title = f"Time against {unit}: beam search, fp32, batch {bench.config.batch_size}"
    columns = (f"{unit} a sentence", "sentences/s", "ms a sentence", f"ms a {unit}")
    print_table(title, columns, rows)


def measure_start(bench: Bench) -> None:
    """Print how long one sentence takes: warm, in this process, and cold, from the command."""
    cases = [bench.case(bench.greedy, precision) for precision in bench.translators]
    lines = [[line] for line in bench.lines[:NUM_SINGLE]]
    warm = bench.times([replace(case, lines=line) for line in lines for case in cases])
    cold = bench.times([Command(bench.config, precision) for precision in bench.translators])
    rows = []
    for place, precision in enumerate(bench.translators):
        single = [1e3 * seconds for seconds in warm[place :: len(cases)]]
        figures = (statistics.median(single), max(single), 1e3 * cold[place])
        rows.append((precision.value, *(f"{milliseconds:.1f}" for milliseconds in figures)))
    title = f"One of {len(lines)} sentences, greedy, in a process that is there; one from typing on"
    print_table(title, ("precision", "median, ms", "longest, ms", "cold, ms"), rows)


TABLES = {
    "speed": measure_speed,
    "attention": measure_attention,
    "beam": measure_beam_sizes,
    "length": measure_lengths,
    "start": measure_start,
}

if __name__ == "__main__":
    main()
