"""Score an exported model on held-out pairs, and time how soon the command answers.

    python benchmarks/everyday.py checkpoints/everyday-de-en DIR

DIR has valid.de.gz and valid.en.gz, as `make everyday` reads them. The answer of translate.py to a
single sentence is timed beside the import of torch alone, which a checkpoint would need.
"""

import argparse
import gzip
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import sacrebleu

sys.path.insert(0, str(Path(__file__).parents[1]))

from seq2seq import BeamConfig, OnnxTranslator
from seq2seq.search.config import GreedyConfig

ROOT = Path(__file__).parents[1]
SENTENCE = "Mein Bruder arbeitet in einem Krankenhaus."


def main() -> None:
    parser = argparse.ArgumentParser(description="Score and time an exported model.")
    parser.add_argument("folder", type=Path, help="folder that seq2seq-export wrote")
    parser.add_argument("data", type=Path, help="folder of valid.de.gz and valid.en.gz")
    parser.add_argument("--repeats", type=int, default=5, help="starts of each process")
    options = parser.parse_args()
    sources, references = (lines(options.data / f"valid.{side}.gz") for side in ("de", "en"))
    translator = OnnxTranslator.load(options.folder, threads=os.cpu_count() or 1)
    megabytes = sum(path.stat().st_size for path in options.folder.iterdir()) / 1e6
    print(f"{options.folder}: {megabytes:.2f} MB\n")
    print("| search | BLEU | chrF |\n|---|--:|--:|")
    for search in (GreedyConfig(), BeamConfig()):
        texts = [each.text for each in translator(sources, search)]
        bleu = sacrebleu.corpus_bleu(texts, [references]).score
        chrf = sacrebleu.corpus_chrf(texts, [references]).score
        print(f"| {search.name} | {bleu:.1f} | {chrf:.1f} |")
    print_starts(options.folder, options.repeats)


def lines(path: Path) -> list[str]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return file.read().splitlines()


def print_starts(folder: Path, repeats: int) -> None:
    """Print the median time of both processes, which take turns."""
    translate = ["translate.py", f"checkpoint={folder.resolve()}", f"text={SENTENCE}", "threads=1"]
    commands = {"translate.py, one sentence": translate, "import torch": ["-c", "import torch"]}
    seconds: dict[str, list[float]] = {name: [] for name in commands}
    for _ in range(repeats):
        for name, arguments in commands.items():
            start = time.perf_counter()
            subprocess.run(
                [sys.executable, *arguments], cwd=ROOT, check=True, stdout=subprocess.DEVNULL
            )
            seconds[name].append(time.perf_counter() - start)
    print("\n| process | seconds |\n|---|--:|")
    for name, values in seconds.items():
        print(f"| {name} | {statistics.median(values):.2f} |")


if __name__ == "__main__":
    main()
