"""The decoding configurations: which search looks for a translation, and how far."""

from dataclasses import dataclass
from enum import Enum

from seq2seq.checks import check_positive

MAX_LENGTH_PENALTY = 100
"""of a length of thousands the penalty is still a number"""


class LengthPenaltyForm(Enum):
    """What a log-probability is divided by: n tokens, end included, and the exponent a."""

    gnmt = "gnmt"
    """((5 + n) / 6) ** a (Wu et al. 2016, eq. 14)"""
    average = "average"
    """n ** a; with a = 1 the mean log-probability of a token (Bahdanau et al. 2014, sec. 4)"""


class EarlyStopping(Enum):
    """When the search of a sentence ends before the length limit."""

    exact = "exact"
    """no hypothesis can still enter the best"""
    first = "first"
    """as many hypotheses are finished as the beam is wide; faster, and may miss better ones"""


@dataclass(kw_only=True, slots=True)
class DecodingConfig:
    """What every search is configured by; `name` says which search it is.

    All lengths count the end of the sentence, those of the source too. An absolute limit is
    `max_length_ratio` 0 with the limit as the offset.
    """

    name: str
    min_length: int = 0
    """a translation has at least so many tokens"""
    min_length_ratio: float = 0.0
    """and at least min_length_ratio * source length of them"""
    max_length_ratio: float = 2.0
    """a translation has at most max_length_ratio * source length + max_length_offset tokens"""
    max_length_offset: int = 10
    no_repeat_ngram: int = 0
    """no sequence of so many tokens stands twice in a translation (Paulus et al. 2017); 0: off"""

    def __post_init__(self) -> None:
        _check_not_negative(self, "min_length", "min_length_ratio", "max_length_ratio")
        check_positive("decoding", self, "max_length_offset")
        _check_not_negative(self, "no_repeat_ngram")
        # Both together keep the shortest allowed within the longest allowed for every source.
        if self.min_length > self.max_length_offset:
            raise ValueError(
                f"decoding.min_length={self.min_length} must be at most "
                f"decoding.max_length_offset={self.max_length_offset}; raise the offset with it"
            )
        if self.min_length_ratio > self.max_length_ratio:
            raise ValueError(
                f"decoding.min_length_ratio={self.min_length_ratio} must be at most "
                f"decoding.max_length_ratio={self.max_length_ratio}; raise the latter with it"
            )

    def shortest(self, source_length: int) -> int:
        """Return how many tokens a translation must have."""
        return max(self.min_length, int(self.min_length_ratio * source_length))

    def longest(self, source_length: int) -> int:
        """Return how many tokens a translation may have."""
        return int(self.max_length_ratio * source_length) + self.max_length_offset

    def as_greedy(self) -> "GreedyConfig":
        """Return greedy search under the same limits."""
        return GreedyConfig(
            min_length=self.min_length,
            min_length_ratio=self.min_length_ratio,
            max_length_ratio=self.max_length_ratio,
            max_length_offset=self.max_length_offset,
            no_repeat_ngram=self.no_repeat_ngram,
        )


@dataclass(kw_only=True, slots=True)
class GreedyConfig(DecodingConfig):
    """The most probable token at each step."""

    name: str = "greedy"


@dataclass(kw_only=True, slots=True)
class BeamConfig(DecodingConfig):
    """The most probable hypotheses of each length, side by side."""

    name: str = "beam"
    beam_size: int = 5
    n_best: int = 1
    """hypotheses that are returned, at most beam_size"""
    length_penalty: float = 1.0
    """exponent of the length penalty; 0: none"""
    length_penalty_form: LengthPenaltyForm = LengthPenaltyForm.gnmt
    coverage_penalty: float = 0.0
    """weight of the coverage penalty (Wu et al. 2016, eq. 14); 0: none"""
    early_stopping: EarlyStopping = EarlyStopping.exact

    def __post_init__(self) -> None:
        DecodingConfig.__post_init__(self)
        check_positive("decoding", self, "beam_size", "n_best")
        _check_n_best(self, "beam_size")
        _check_not_negative(self, "length_penalty", "coverage_penalty")
        if self.length_penalty > MAX_LENGTH_PENALTY:
            raise ValueError(
                f"decoding.length_penalty={self.length_penalty} must be at most "
                f"{MAX_LENGTH_PENALTY}; 1 is usual"
            )

    def check_without_attention(self) -> None:
        """Raise ValueError where a model without attention heads cannot be searched so."""
        if self.coverage_penalty > 0:
            raise ValueError(
                f"decoding.coverage_penalty={self.coverage_penalty} needs attention, of which "
                "this model has none; set it to 0"
            )

    def penalty(self, length: int) -> float:
        """Return what divides the log-probability of a hypothesis of so many tokens."""
        base = length if self.length_penalty_form is LengthPenaltyForm.average else (5 + length) / 6
        return float(base**self.length_penalty)


@dataclass(kw_only=True, slots=True)
class SamplingConfig(DecodingConfig):
    """Tokens drawn from the model's distribution, with its tail cut where asked."""

    name: str = "sampling"
    temperature: float = 1.0
    """divides log-probabilities before the draw; below 1 the probable becomes more so"""
    top_k: int = 0
    """draw from so many of the most probable tokens (Fan et al. 2018); 0: from all"""
    top_p: float = 1.0
    """draw from the fewest tokens that have this probability together (Holtzman et al. 2020)"""
    num_samples: int = 1
    """hypotheses that are drawn for a sentence"""
    n_best: int = 1
    """most that are returned of them, at most num_samples"""
    seed: int = 1

    def __post_init__(self) -> None:
        DecodingConfig.__post_init__(self)
        if not 0 < self.temperature < float("inf"):
            raise ValueError(
                f"decoding.temperature={self.temperature} must be a number above 0; "
                "for the most probable token choose decoding=greedy"
            )
        _check_not_negative(self, "top_k")
        if not 0 < self.top_p <= 1:
            raise ValueError(
                f"decoding.top_p={self.top_p} must lie in (0, 1]; 1 draws from all tokens"
            )
        check_positive("decoding", self, "num_samples", "n_best")
        _check_n_best(self, "num_samples")


def _check_not_negative(config: object, *fields: str) -> None:
    """Raise ValueError unless each field is a finite number of at least 0."""
    for field in fields:
        value = getattr(config, field)
        if not 0 <= value < float("inf"):
            raise ValueError(
                f"decoding.{field}={value} must be a number of at least 0; leave it out for "
                "the usual value"
            )


def _check_n_best(config: BeamConfig | SamplingConfig, bound: str) -> None:
    most = getattr(config, bound)
    if config.n_best > most:
        raise ValueError(
            f"decoding.n_best={config.n_best} must be at most decoding.{bound}={most}; "
            f"raise decoding.{bound} with it"
        )
