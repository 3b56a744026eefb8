"""Copying: how well a model translates sentences with tags, emoji and codes in several places.

    python benchmarks/copying.py checkpoints/NAME [--split valid] [--lines 300]

prints for each kind of span and place the chrF of the translations without the spans, how much it
is above the chrF of the sentences without spans, and the share of lines that keep their spans.
"""

import argparse
import re
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from seq2seq import Translator
from seq2seq.evaluation.measures import score_texts
from seq2seq.training.run_directory import RunDirectory

CODE, EMOJI, TAG = "KR-7008", "\U0001f600", ("<b>", "</b>")


def main(arguments: Sequence[str] | None = None) -> None:
    """Translate the sentences of a run's set, without and with spans, and print a table."""
    parser = argparse.ArgumentParser(description="Measure how well spans are copied.")
    parser.add_argument("run", type=Path, help="run directory")
    parser.add_argument("--split", default="valid", help="set: valid or test")
    parser.add_argument("--lines", type=int, default=300, help="number of sentences")
    options = parser.parse_args(arguments)
    pairs = zip(*RunDirectory(options.run).read_texts(options.split, ("src", "ref")), strict=True)
    plain = [pair for pair in pairs if not re.search(r"[\d<>%]", pair[0])][: options.lines]
    translator = Translator.load(options.run)
    print("| spans | chrF of the rest | difference | kept |\n|---|--:|--:|--:|")
    base = 0.0
    for name, (spans, change) in PLACES.items():
        texts = [line.text for line in translator([change(source) for source, _ in plain])]
        kept = sum(all(text.count(span) == 1 for span in spans) for text in texts)
        rest = [without(text, spans) for text in texts]
        chrf = score_texts(rest, [reference for _, reference in plain])["chrf"]
        base = base or chrf
        print(f"| {name} | {chrf:.1f} | {chrf - base:+.1f} | {kept} of {len(plain)} |", flush=True)


def without(text: str, spans: Sequence[str]) -> str:
    """Return a text without spans, and without the spaces that they leave."""
    for span in spans:
        text = text.replace(span, " ")
    return re.sub(r" (?=[.,!?])", "", " ".join(text.split()))


def at_middle(change: Callable[[str], str]) -> Callable[[str], str]:
    """Return a function that changes the word in the middle of a sentence."""

    def changed(sentence: str) -> str:
        words = sentence.split()
        middle = len(words) // 2
        words[middle] = re.sub(r"\w+", lambda word: change(word[0]), words[middle], count=1)
        return " ".join(words)

    return changed


PLACES: dict[str, tuple[Sequence[str], Callable[[str], str]]] = {
    "none": ((), lambda sentence: sentence),
    "tags around the sentence": (TAG, lambda sentence: sentence.join(TAG)),
    "tags around a word": (TAG, at_middle(lambda word: word.join(TAG))),
    "emoji at the end": ((EMOJI,), lambda sentence: f"{sentence} {EMOJI}"),
    "emoji in the middle": ((EMOJI,), at_middle(lambda word: f"{word} {EMOJI}")),
    "code before": ((CODE,), lambda sentence: f"{CODE} {sentence}"),
    "code in the middle": ((CODE,), at_middle(lambda word: f"{CODE} {word}")),
}


if __name__ == "__main__":
    main()
