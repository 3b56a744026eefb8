"""What translate_speed.py times: ways to translate, run in turn."""

import re
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from torch import Tensor

from seq2seq.cli.config import TranslateConfig, shown
from seq2seq.inference.translator import Translator
from seq2seq.runtime.numerics import Precision
from seq2seq.search import BeamConfig, DecodingConfig
from seq2seq.search.backpointers import History

SCRIPT = Path(__file__).parents[1] / "translate.py"
TYPED = "Ein Hund rennt."


def in_turn(runs: Sequence[Callable[[], object]], *, repeats: int) -> list[list[float]]:
    """Return the seconds that each run took, each time."""
    taken: list[list[float]] = [[] for _ in runs]
    for _ in range(repeats):
        for run, seconds in zip(runs, taken, strict=True):
            started = time.perf_counter()
            run()
            seconds.append(time.perf_counter() - started)
    return taken


@dataclass(frozen=True)
class Case:
    """A translator with what it translates, and how."""

    translator: Translator
    lines: Sequence[str]
    decoding: DecodingConfig
    batch_size: int

    @property
    def beam_size(self) -> int:
        """Return how many hypotheses of a sentence are followed; 1 is greedy search."""
        return self.decoding.beam_size if isinstance(self.decoding, BeamConfig) else 1

    def __call__(self) -> list[str]:
        """Return the translations."""
        found = self.translator.translate(self.lines, self.decoding, batch_size=self.batch_size)
        return [translation.text for translation in found]


@dataclass(frozen=True)
class WithoutAttention:
    """The same, but the beam search keeps no weights of what it attends to."""

    case: Case

    def __call__(self) -> list[str]:
        with mock.patch("seq2seq.search.beam.History", WeightlessHistory):
            return self.case()


class WeightlessHistory(History):
    """Forgets the weights of each step."""

    def append(
        self,
        tokens: Tensor,
        *,
        parents: Tensor,
        rows: Tensor,
        log_probabilities: Tensor,
        weights: Tensor,
    ) -> Tensor:
        return super().append(
            tokens,
            parents=parents,
            rows=rows,
            log_probabilities=log_probabilities,
            attention_weights=weights[:, :, :0],
        )


@dataclass(frozen=True)
class Command:
    """A call of translate.py, from typing to answer."""

    config: TranslateConfig
    precision: Precision

    def __call__(self) -> str:
        """Return the answer."""
        values = {
            "checkpoint": shown(self.config.checkpoint),
            "device": self.config.device.value,
            "precision": self.precision.value,
            "threads": self.config.threads or "null",
            "text": TYPED,
        }
        overrides = [f"{key}={value}" for key, value in values.items()]
        command = [sys.executable, str(SCRIPT), *overrides]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout


class Peer(NamedTuple):
    """What a peer says of itself."""

    name: str
    beam_size: int
    speed: float
    """sentences a second"""


def ask_peer(command: str) -> Peer:
    """Run a peer's benchmark; return what it says."""
    printed = subprocess.run(command, shell=True, check=True, capture_output=True, text=True)
    found = re.search(r"(?m)^(.*), beam (\d+): ([\d.]+) sentences/s", printed.stdout)
    if found is None:
        sys.exit(f"{command} printed no NAME, beam SIZE: X sentences/s")
    return Peer(found[1], int(found[2]), float(found[3]))
