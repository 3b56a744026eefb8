"""The test set and the cases of translate_speed.py: ways to translate, timed in turn."""

import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from seq2seq.cli.translate_config import TranslateConfig, shown
from seq2seq.cli.translate_inputs import open_inputs
from seq2seq.data.corpus import load_corpora
from seq2seq.inference.checkpoint import load_checkpoint
from seq2seq.inference.translator import Translator
from seq2seq.runtime.devices import Precision
from seq2seq.search.config import BeamConfig, DecodingConfig

SCRIPT = Path(__file__).parents[1] / "translate.py"
SENTENCE = "Ein Hund rennt."


def read_test_set(config: TranslateConfig) -> list[tuple[str, str]]:
    """Return the lines and their references."""
    if config.input is None and config.reference is None:
        data = load_checkpoint(config.checkpoint[0]).config.data
        return [(pair.source, pair.target) for pair in load_corpora(data).test or ()]
    if config.input is None or config.reference is None:
        sys.exit("error: input=FILE and reference=FILE must be given together, or neither")
    with ExitStack() as stack:
        return list(open_inputs(config, stack))


def time_in_turn(runs: Sequence[Callable[[], object]], *, repeats: int) -> list[list[float]]:
    """Call all runs in turn, `repeats` times; return the seconds of each run's calls."""
    times: list[list[float]] = [[] for _ in runs]
    for _ in range(repeats):
        for run, seconds in zip(runs, times, strict=True):
            started = time.perf_counter()
            run()
            seconds.append(time.perf_counter() - started)
    return times


@dataclass(frozen=True)
class Case:
    """A translator, the lines to translate and the search."""

    translator: Translator
    lines: Sequence[str]
    decoding: DecodingConfig
    batch_size: int

    @property
    def beam_size(self) -> int:
        """Return the beam size; greedy search has 1."""
        return self.decoding.beam_size if isinstance(self.decoding, BeamConfig) else 1

    def __call__(self) -> list[str]:
        """Translate the lines."""
        translations = self.translator.translate(
            self.lines, self.decoding, batch_size=self.batch_size
        )
        return [translation.text for translation in translations]


@dataclass(frozen=True)
class Command:
    """One run of translate.py in a process of its own."""

    config: TranslateConfig
    precision: Precision

    def __call__(self) -> str:
        """Translate one sentence; return the output."""
        values = {
            "checkpoint": shown(self.config.checkpoint),
            "device": self.config.device.value,
            "precision": self.precision.value,
            "threads": self.config.threads or "null",
            "text": SENTENCE,
        }
        overrides = [f"{key}={value}" for key, value in values.items()]
        command = [sys.executable, str(SCRIPT), *overrides]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout


class Peer(NamedTuple):
    """The result of a peer's benchmark."""

    name: str
    beam_size: int
    speed: float
    """Sentences per second."""


def ask_peer(command: str) -> Peer:
    """Run a peer's command and parse the result that it prints."""
    printed = subprocess.run(command, shell=True, check=True, capture_output=True, text=True)
    found = re.search(r"(?m)^(.*), beam (\d+): ([\d.]+) sentences/s", printed.stdout)
    if found is None:
        sys.exit(f"error: --peer-command={command} must print 'NAME, beam SIZE: X sentences/s'")
    return Peer(found[1], int(found[2]), float(found[3]))
