"""Configurations of the searches."""

from dataclasses import dataclass
from enum import Enum

from seq2seq.checks import check_at_most, check_not_negative, check_positive

MAX_LENGTH = 1_000_000
"""Limit of `max_length_offset` and `max_length_ratio`."""
MAX_HYPOTHESES = 10_000
"""Limit of `beam_size` and `num_samples`."""
MAX_LENGTH_PENALTY = 40
"""Largest exponent; the penalty of a million tokens stays finite."""


class LengthPenaltyForm(Enum):
    """Divisor of the log-probability of n tokens, EOS included, with exponent a."""

    gnmt = "gnmt"
    """((5 + n) / 6) ** a (Wu et al. 2016, eq. 14)."""
    average = "average"
    """n ** a; a = 1 gives the mean log-probability of a token (Koehn and Knowles 2017)."""


class EarlyStopping(Enum):
    """Rule for ending the search of a sentence before the length limit."""

    exact = "exact"
    """End when no hypothesis can still enter the `n_best`; changes no result."""
    first = "first"
    """End when `beam_size` hypotheses are finished; faster, but may miss better ones."""


@dataclass(kw_only=True, slots=True)
class DecodingConfig:
    """Settings of every search; `name` selects the search.

    All lengths include EOS, those of sources too. For an absolute limit, set `max_length_ratio=0`
    and `max_length_offset` to the limit.
    """

    name: str
    min_length: int = 0
    """Minimum number of tokens of a translation."""
    min_length_ratio: float = 0.0
    """Minimum number of tokens per source token."""
    max_length_ratio: float = 2.0
    """A translation has at most max_length_ratio * source length + max_length_offset tokens."""
    max_length_offset: int = 10
    """See `max_length_ratio`; at least `min_length`."""
    no_repeat_ngram: int = 0
    """Length of token sequences that may not occur twice (Paulus et al. 2017); 0: off."""

    def __post_init__(self) -> None:
        numbers = ("min_length", "min_length_ratio", "max_length_ratio", "no_repeat_ngram")
        check_not_negative("decoding", self, *numbers)
        check_positive("decoding", self, "max_length_offset")
        check_at_most("decoding", self, MAX_LENGTH, "max_length_offset", "max_length_ratio")
        # Both together keep the minimum length within the maximum length for every source.
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
        """Return the minimum number of tokens of a translation."""
        return max(self.min_length, int(self.min_length_ratio * source_length))

    def longest(self, source_length: int) -> int:
        """Return the maximum number of tokens of a translation.

        Example:
            >>> GreedyConfig(max_length_ratio=1.5, max_length_offset=5).longest(11)
            21
        """
        return int(self.max_length_ratio * source_length) + self.max_length_offset

    def as_greedy(self) -> "GreedyConfig":
        """Return the configuration of greedy search with the same limits."""
        return GreedyConfig(
            min_length=self.min_length,
            min_length_ratio=self.min_length_ratio,
            max_length_ratio=self.max_length_ratio,
            max_length_offset=self.max_length_offset,
            no_repeat_ngram=self.no_repeat_ngram,
        )


@dataclass(kw_only=True, slots=True)
class GreedyConfig(DecodingConfig):
    """Settings of greedy search: the most probable token at each step."""

    name: str = "greedy"


@dataclass(kw_only=True, slots=True)
class BeamConfig(DecodingConfig):
    """Settings of beam search, which keeps the most probable hypotheses at each step."""

    name: str = "beam"
    beam_size: int = 5
    """Number of hypotheses kept at each step."""
    n_best: int = 1
    """Number of hypotheses to return, at most `beam_size`."""
    length_penalty: float = 1.0
    """Exponent of the length penalty; 0: none."""
    length_penalty_form: LengthPenaltyForm = LengthPenaltyForm.gnmt
    coverage_penalty: float = 0.0
    """Weight of the coverage penalty (Wu et al. 2016, eq. 14); 0: none."""
    early_stopping: EarlyStopping = EarlyStopping.exact

    def __post_init__(self) -> None:
        DecodingConfig.__post_init__(self)
        check_positive("decoding", self, "beam_size", "n_best")
        check_at_most("decoding", self, MAX_HYPOTHESES, "beam_size")
        _check_n_best(self, "beam_size")
        check_not_negative("decoding", self, "length_penalty", "coverage_penalty")
        check_at_most("decoding", self, MAX_LENGTH_PENALTY, "length_penalty")

    def check_without_attention(self) -> None:
        """Raise ValueError if these settings need attention."""
        if self.coverage_penalty > 0:
            raise ValueError(
                f"decoding.coverage_penalty={self.coverage_penalty} needs attention, but this "
                "model has none; set it to 0"
            )

    def penalty(self, length: int) -> float:
        """Return the length penalty of a hypothesis with the given number of tokens.

        Example:
            >>> BeamConfig(length_penalty=1.0).penalty(7)
            2.0
        """
        base = length if self.length_penalty_form is LengthPenaltyForm.average else (5 + length) / 6
        return float(base**self.length_penalty)


@dataclass(kw_only=True, slots=True)
class SamplingConfig(DecodingConfig):
    """Settings of sampling from the model's distribution."""

    name: str = "sampling"
    temperature: float = 1.0
    """Divisor of log-probabilities before sampling; below 1, probable tokens become more so."""
    top_k: int = 0
    """Sample from this number of most probable tokens (Fan et al. 2018); 0: from all."""
    top_p: float = 1.0
    """Sample from the fewest tokens that reach this probability (Holtzman et al. 2020)."""
    num_samples: int = 1
    """Number of samples of each sentence."""
    n_best: int = 1
    """Maximum number of distinct hypotheses to return, at most `num_samples`."""
    seed: int = 1
    """Seed of the random numbers, together with the ids of the sentence."""

    def __post_init__(self) -> None:
        DecodingConfig.__post_init__(self)
        if not 0 < self.temperature < float("inf"):
            raise ValueError(
                f"decoding.temperature={self.temperature} must be a number above 0; "
                "for the most probable token choose decoding=greedy"
            )
        check_not_negative("decoding", self, "top_k")
        if not 0 < self.top_p <= 1:
            raise ValueError(
                f"decoding.top_p={self.top_p} must lie in (0, 1]; 1 samples from all tokens"
            )
        check_positive("decoding", self, "num_samples", "n_best")
        check_at_most("decoding", self, MAX_HYPOTHESES, "num_samples")
        _check_n_best(self, "num_samples")


def _check_n_best(config: BeamConfig | SamplingConfig, bound: str) -> None:
    """Raise ValueError if `n_best` exceeds another field."""
    most = getattr(config, bound)
    if config.n_best > most:
        raise ValueError(
            f"decoding.n_best={config.n_best} must be at most decoding.{bound}={most}; "
            f"raise decoding.{bound} with it"
        )
