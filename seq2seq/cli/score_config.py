"""What translate.py is told when it scores translations; nothing here needs torch."""

from dataclasses import dataclass
from enum import Enum

from seq2seq.checks import check_positive
from seq2seq.files.paths import expand_home


class ScoreFormat(Enum):
    """How the scores are written."""

    text = "text"
    """a table and the signatures"""
    json = "json"
    """one object with the same numbers, not rounded"""


class Significance(Enum):
    """sacreBLEU's paired tests, by which systems are compared with the first."""

    bootstrap = "bootstrap"
    """resampling with replacement; gives a confidence interval too"""
    approximate_randomization = "approximate_randomization"
    """exchange of sentences between two systems"""


@dataclass(kw_only=True, slots=True)
class ScoreConfig:
    """What is scored, against what, and how."""

    hypotheses: list[str]
    """a file of each system; all others are compared with the first"""
    reference: list[str]
    """files of the true translations, line for line; more than one give alternatives"""
    output: str | None
    """None: standard output"""
    output_format: ScoreFormat
    significance: Significance
    significance_samples: int | None
    """None: as many as sacreBLEU takes"""

    def __post_init__(self) -> None:
        for key in ("hypotheses", "reference"):
            names = getattr(self, key)
            if not (names and all(names)):
                raise ValueError(f"{key}={names} must name a file, or several: [a.en,b.en]")
        if self.significance_samples is not None:
            check_positive("", self, "significance_samples")
        self._check_output()

    def _check_output(self) -> None:
        """Let the scores not be written over what they are computed from."""
        if self.output is None:
            return
        output = expand_home(self.output, key="output")
        for key in ("hypotheses", "reference"):
            for name in getattr(self, key):
                path = expand_home(name, key=key)
                if output.is_file() and path.exists() and path.samefile(output):
                    raise ValueError(
                        f"output={self.output} would overwrite what {key}={name} names; "
                        "give it another name"
                    )
