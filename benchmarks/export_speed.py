"""Compare exported models with the checkpoint: latency, speed in batches, cold start, size, texts.

    python benchmarks/export_speed.py checkpoints/NAME my/fp32 my/int8 \
        --input checkpoints/NAME/test.src --reference checkpoints/NAME/test.ref

The translators take each sentence, and the whole input, in turn, so that drifts of the machine's
speed affect all of them. Times are of the processor and of one thread, so that other programs count
little. Times of the clock are those of a cold start and of the second table, where all threads
translate in the fastest of some batch sizes, with peers such as
`--peer-command "python benchmarks/ctranslate2_speed.py --beam 5"` before and after.
"""

import argparse
import logging
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import partial
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks.translate_cases import ask_peer, time_in_turn
from seq2seq import BeamConfig, GreedyConfig, Translator
from seq2seq.evaluation.measures import score_texts
from seq2seq.export.translator import OnnxTranslator
from seq2seq.search.config import DecodingConfig

Engine = Translator | OnnxTranslator
SEARCHES = (GreedyConfig(), BeamConfig())
COLD = {
    "checkpoint": "from seq2seq import Translator as T; t = T.load({!r}, device='cpu')",
    "folder": "from seq2seq import OnnxTranslator as T; t = T.load({!r}, threads=1)",
}


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("checkpoint", help="a run's directory or a file")
    parser.add_argument("folders", nargs="+", help="folders that seq2seq-export wrote from it")
    parser.add_argument("--input", type=Path, required=True, help="a file of sentences")
    parser.add_argument("--reference", type=Path, help="a file of their translations, for BLEU")
    parser.add_argument("--single", type=int, default=100, help="sentences translated alone")
    parser.add_argument("--repeats", type=int, default=3, help="runs per median")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--batch-sizes", type=int, nargs="+", default=[32, 64, 128])
    parser.add_argument(
        "--peer-command", action="append", default=[], help="as of translate_speed.py"
    )
    options = parser.parse_args(argv)
    logging.getLogger("seq2seq").setLevel(logging.ERROR)  # warnings about the same lines each time
    torch.set_num_threads(1)
    lines = options.input.read_text(encoding="utf-8").splitlines()
    engines: dict[str, Engine] = {
        options.checkpoint: Translator.load(options.checkpoint, device="cpu"),
        **{folder: OnnxTranslator.load(folder) for folder in options.folders},
    }
    print_speeds(engines, lines, options)
    print_rates(lines, options)
    print_texts(engines, lines, options.reference)
    print_cold_starts([*engines], lines[0], repeats=options.repeats)


def print_speeds(engines: dict[str, Engine], lines: list[str], options: argparse.Namespace) -> None:
    print("| one thread | search | one sentence, ms: median | 95% | sentences/s in batches of 64 |")
    print("|---|---|--:|--:|--:|")
    for decoding in SEARCHES:
        for engine in engines.values():
            engine(lines[:2], decoding)
        alone: dict[str, list[float]] = {name: [] for name in engines}
        together: dict[str, list[float]] = {name: [] for name in engines}
        for line in lines[: options.single]:
            for name, engine in engines.items():
                alone[name].append(seconds(engine, [line], decoding))
        for _ in range(options.repeats):
            for name, engine in engines.items():
                together[name].append(seconds(engine, lines, decoding))
        for name in engines:
            milliseconds = sorted(1e3 * each for each in alone[name])
            cells = [
                name,
                decoding.name,
                f"{statistics.median(milliseconds):.1f}",
                f"{milliseconds[int(0.95 * len(milliseconds))]:.1f}",
                f"{len(lines) / statistics.median(together[name]):.0f}",
            ]
            print(f"| {' | '.join(cells)} |", flush=True)


def print_rates(lines: list[str], options: argparse.Namespace) -> None:
    """Print the sentences per second of all threads, by the clock."""
    torch.set_num_threads(options.threads)
    engines: dict[str, Engine] = {
        options.checkpoint: Translator.load(options.checkpoint, device="cpu"),
        **{name: OnnxTranslator.load(name, threads=options.threads) for name in options.folders},
    }
    peers = [ask_peer(command) for command in options.peer_command]
    rows = []
    for decoding in SEARCHES:
        cases = {
            (name, size): partial(engine, lines, decoding, batch_size=size)
            for name, engine in engines.items()
            for size in options.batch_sizes
        }
        once = dict(zip(cases, time_in_turn([*cases.values()], repeats=1), strict=True))
        # The speed at the fastest size is measured again: the fastest of several trials is biased.
        best = [min((once[name, size], size) for size in options.batch_sizes) for name in engines]
        chosen = [(name, size) for name, (_, size) in zip(engines, best, strict=True)]
        times = time_in_turn([cases[case] for case in chosen], repeats=options.repeats)
        for (name, size), each in zip(chosen, times, strict=True):
            rows.append((name, decoding.name, size, len(lines) / min(each)))
    peers += [ask_peer(command) for command in options.peer_command]
    for name, beam in dict.fromkeys((peer.name, peer.beam_size) for peer in peers):
        speed = max(peer.speed for peer in peers if (peer.name, peer.beam_size) == (name, beam))
        rows.append((name, f"beam {beam}", "", speed))
    print(f"\n| {options.threads} threads | search | batches of | sentences/s by the clock |")
    print("|---|---|--:|--:|")
    for *cells, speed in rows:
        print(f"| {' | '.join(map(str, cells))} | {speed:.0f} |")
    torch.set_num_threads(1)


def seconds(engine: Engine, lines: list[str], decoding: DecodingConfig) -> float:
    """Return the processor time of a translation."""
    start = time.process_time()
    engine(lines, decoding)
    return time.process_time() - start


def print_texts(engines: dict[str, Engine], lines: list[str], reference: Path | None) -> None:
    references = None if reference is None else reference.read_text(encoding="utf-8").splitlines()
    print("\n| model | batches of | texts as of the checkpoint, beam 5 | BLEU |")
    print("|---|--:|--:|--:|")
    expected: list[str] = []
    for name, engine in engines.items():
        for batch_size in (1, 64):
            texts = [each.text for each in engine(lines, BeamConfig(), batch_size=batch_size)]
            expected = expected or texts
            same = sum(map(str.__eq__, texts, expected))
            bleu = "" if references is None else f"{score_texts(texts, references)['bleu']:.2f}"
            print(f"| {name} | {batch_size} | {same} of {len(texts)} | {bleu} |", flush=True)


def print_cold_starts(paths: list[str], line: str, *, repeats: int) -> None:
    print("\n| model | cold start, s: processor | clock | memory, MB | graphs or file, MB |")
    print("|---|--:|--:|--:|--:|")
    measured: dict[str, list[tuple[float, float, float]]] = {path: [] for path in paths}
    for _ in range(repeats):
        for path in paths:
            measured[path].append(cold_start(path, line, is_folder=path != paths[0]))
    for path, runs in measured.items():
        processor, clock, memory = map(statistics.median, zip(*runs, strict=True))
        print(f"| {path} | {processor:.2f} | {clock:.2f} | {memory:.0f} | {size(path):.1f} |")


def cold_start(path: str, line: str, *, is_folder: bool) -> tuple[float, float, float]:
    """Return processor and clock seconds and megabytes of a process that translates a line."""
    code = COLD["folder" if is_folder else "checkpoint"].format(path)
    # The peak that the system reports for a child includes this process, which it was forked from.
    peak = "import re; print(re.search(r'VmHWM:\\s+(\\d+)', open('/proc/self/status').read())[1])"
    before = os.times()
    done = subprocess.run(
        [sys.executable, "-c", f"{code}; t([{line!r}]); {peak}"],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=True,
    )
    after = os.times()
    processor = sum(after[2:4]) - sum(before[2:4])  # of children
    return processor, after.elapsed - before.elapsed, int(done.stdout) / 1024


def size(path: str) -> float:
    """Return the megabytes of the graphs of a folder, or of a checkpoint."""
    best = Path(path) / "best.pt"
    graphs = [*Path(path).glob("*.onnx")]
    files = graphs or [best if best.is_file() else Path(path)]
    return sum(file.stat().st_size for file in files) / 1e6


if __name__ == "__main__":
    main()
