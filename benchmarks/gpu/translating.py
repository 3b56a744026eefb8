"""Translation with the run that check.py trained: the same as on the CPU, and how fast."""

import sys
from functools import partial
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.gpu.part import Part, run_part
from benchmarks.translate_cases import Case
from seq2seq.data.corpus import load_corpora
from seq2seq.evaluation.measures import score_texts
from seq2seq.inference.checkpoint import load_checkpoint
from seq2seq.inference.translator import Translator
from seq2seq.runtime.process import keep_freed_memory
from seq2seq.search.config import BeamConfig, DecodingConfig, EarlyStopping, GreedyConfig

SEARCHES: dict[str, DecodingConfig] = {
    "greedy": GreedyConfig(),
    "beam 5": BeamConfig(beam_size=5),
    "beam 5, first": BeamConfig(beam_size=5, early_stopping=EarlyStopping.first),
}
PRECISIONS = ("fp32", "bf16")


def main(part: Part) -> None:
    keep_freed_memory()
    test = load_corpora(load_checkpoint(part.run).config.data).test
    assert test is not None
    pairs = list(test)[: 1000 if part.on_gpu else 16]
    lines = [pair.source for pair in pairs]
    references = [pair.target for pair in pairs]
    part.attempt("as on the CPU", partial(compare_with_cpu, part, lines[:200]))
    for precision in PRECISIONS:
        translator = Translator.load(part.run, device=part.name, precision=precision)
        for name, search in SEARCHES.items():
            for size in (64, 512) if part.on_gpu else (16,):
                case = Case(translator, lines, search, size)
                row = f"{name}, {size}, {precision}"
                part.attempt(row, partial(measure, part, row, case, references))
        singles = partial(measure_singles, part, translator, lines[:40], precision)
        part.attempt("one by one", singles)


def compare_with_cpu(part: Part, lines: list[str]) -> None:
    devices = [
        Translator.load(part.run, device=name, precision="fp32") for name in ("cpu", part.name)
    ]
    for name in ("greedy", "beam 5"):
        texts = [Case(each, lines, SEARCHES[name], 64)() for each in devices]
        num_equal = sum(one == other for one, other in zip(*texts, strict=True))
        part.row(f"fp32 {name} as on the CPU", f"{num_equal}/{len(lines)}")


def measure(part: Part, name: str, case: Case, references: list[str]) -> None:
    texts = case()
    seconds = min(part.time(case) for _ in range(2))
    bleu = score_texts(texts, references)["bleu"]
    part.row(name, f"{len(texts) / seconds:.0f} sentences/s, BLEU {bleu:.1f}")


def measure_singles(part: Part, translator: Translator, lines: list[str], precision: str) -> None:
    times = [part.time(Case(translator, [line], SEARCHES["greedy"], 1)) for line in lines]
    part.row(f"one sentence, greedy, {precision}", f"median {1e3 * median(times):.1f} ms")


if __name__ == "__main__":
    run_part(main)
