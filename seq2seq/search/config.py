"""Configurations of the searches, and what a search finds; loads without torch."""

# N heads, T target length, S source length

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from enum import Enum
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

from seq2seq.checks import Config, Count, Range, Weight

if TYPE_CHECKING:
    from torch import Tensor

MAX_LENGTH = 1_000_000
"""Upper limit of `max_length_offset` and `max_length_ratio`."""
MAX_HYPOTHESES = 10_000
"""Upper limit of `beam_size` and `num_samples`."""
_Kind = TypeVar("_Kind", bound="DecodingConfig")
_TEMPERATURE = Range(above=0, hint="for the most probable token choose decoding=greedy")
_NotNegative = Annotated[int, Range(0)]
_NumHypotheses = Annotated[int, Range(1, MAX_HYPOTHESES)]


class EarlyStopping(Enum):
    """Rule for ending the search of a sentence before the length limit."""

    exact = "exact"
    """End when no unfinished hypothesis can enter the `n_best`; this never changes the result."""
    first = "first"
    """End when `beam_size` hypotheses are finished; faster, but may miss better hypotheses."""


@dataclass(kw_only=True, slots=True, repr=False)
class DecodingConfig(Config, section="decoding"):
    """Settings of every search; `name` selects the search.

    All lengths include EOS, source lengths too. For an absolute limit, set `max_length_ratio=0`
    and `max_length_offset` to the limit. Validation searches greedily and uses only these limits.
    """

    name: str
    """Name of the search in the registry, as in `decoding=beam`."""
    min_length: _NotNegative = 0
    """Minimum number of tokens in a translation."""
    max_length_ratio: Annotated[float, Range(0, MAX_LENGTH)] = 2.0
    """Factor of the maximum number of tokens: max_length_ratio * source length +
    max_length_offset."""
    max_length_offset: Annotated[int, Range(1, MAX_LENGTH)] = 10
    """Constant part of the maximum number of tokens, at least `min_length`; see
    `max_length_ratio`."""
    no_repeat_ngram: _NotNegative = 0
    """Length of token sequences that must not occur twice (Paulus et al. 2017); 0: no such rule."""

    def __post_init__(self) -> None:
        Config.__post_init__(self)
        self._check_at_most("min_length", "max_length_offset")

    def _check_at_most(self, name: str, bound: str) -> None:
        """Raise ValueError if a field exceeds another."""
        value, most = getattr(self, name), getattr(self, bound)
        if value > most:
            raise ValueError(
                f"decoding.{name}={value} must be at most decoding.{bound}={most}; lower "
                f"it, or raise decoding.{bound}"
            )

    @property
    def maximizes_probability(self) -> bool:
        """Return whether the search looks for the most probable translation."""
        return type(self) in (GreedyConfig, BeamConfig)

    def longest(self, source_length: int) -> int:
        """Return the maximum number of tokens of a translation.

        Example:
            >>> GreedyConfig(max_length_ratio=1.5, max_length_offset=5).longest(11)
            21
        """
        return int(self.max_length_ratio * source_length) + self.max_length_offset

    def candidates(self) -> "DecodingConfig":
        """Return the search with more hypotheses, because some of them may have equal texts."""
        return self


@dataclass(kw_only=True, slots=True, repr=False)
class GreedyConfig(DecodingConfig):
    """Settings of greedy search: the most probable token at each step."""

    name: str = "greedy"


@dataclass(kw_only=True, slots=True, repr=False)
class BeamConfig(DecodingConfig):
    """Settings of beam search, which keeps the most probable hypotheses at each step."""

    name: str = "beam"
    beam_size: _NumHypotheses = 5
    """Number of hypotheses to keep at each step; mbr compares them at the end."""
    n_best: Count = 1
    """Maximum number of hypotheses to return, at most `beam_size` or the `num_samples` of sampling;
    they have distinct texts."""
    length_penalty: Annotated[float, Range(0, 40)] = 1.0  # MAX_LENGTH ** 40 is still finite
    """Exponent of the length penalty; 0: no penalty."""
    coverage_penalty: Weight = 0.0
    """Weight of the coverage penalty (Wu et al. 2016, eq. 14); 0: no penalty."""
    early_stopping: EarlyStopping = EarlyStopping.exact

    def __post_init__(self) -> None:
        DecodingConfig.__post_init__(self)
        self._check_at_most("n_best", "beam_size")

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
        return float(((5 + length) / 6) ** self.length_penalty)

    def candidates(self) -> DecodingConfig:
        return self if self.n_best == 1 else replace(self, n_best=self.beam_size)


@dataclass(kw_only=True, slots=True, repr=False)
class MbrConfig(BeamConfig):
    """Settings of minimum Bayes risk decoding, which chooses the hypothesis that is most similar to
    all hypotheses of a beam."""

    name: str = "mbr"
    beam_size: _NumHypotheses = 8
    """Number of hypotheses to keep at each step; mbr compares them at the end."""

    def candidates(self) -> DecodingConfig:
        return replace(self, n_best=self.beam_size)


@dataclass(kw_only=True, slots=True, repr=False)
class SamplingConfig(DecodingConfig):
    """Settings of sampling from the model's distribution."""

    name: str = "sampling"
    temperature: Annotated[float, _TEMPERATURE] = 1.0
    """Divisor of log-probabilities before sampling; below 1, probable tokens become more
    probable."""
    top_k: _NotNegative = 0
    """Number of most probable tokens to sample from (Fan et al. 2018); 0: all tokens."""
    top_p: Annotated[float, Range(above=0, most=1, hint="1 samples from all tokens")] = 1.0
    """Total probability of the most probable tokens to sample from (Holtzman et al. 2020)."""
    num_samples: _NumHypotheses = 1
    """Number of samples to draw for each sentence."""
    n_best: Count = 1
    """Maximum number of hypotheses to return, at most `beam_size` or the `num_samples` of sampling;
    they have distinct texts."""
    seed: int = 1
    """Seed of the random numbers, which also depend on the ids of the sentence."""

    def __post_init__(self) -> None:
        DecodingConfig.__post_init__(self)
        self._check_at_most("n_best", "num_samples")

    def candidates(self) -> DecodingConfig:
        return self if self.n_best == 1 else replace(self, n_best=self.num_samples)


CONFIG_TYPES: dict[str, type[DecodingConfig]] = {
    each().name: each for each in (GreedyConfig, BeamConfig, MbrConfig, SamplingConfig)
}
"""Config types of this package's searches; `seq2seq.search.searches` also has plug-ins' types."""
DEFAULT_SEARCH = BeamConfig()
"""The search of every translator unless another one is chosen; validation searches greedily."""


def convert_search(config: DecodingConfig, kind: type[_Kind]) -> _Kind:
    """Return another kind of search with the settings that both kinds share."""
    names = {each.name for each in fields(kind)} & {each.name for each in fields(config)}
    return kind(**{name: getattr(config, name) for name in names - {"name"}})


class Hypothesis(NamedTuple):
    """A translation, found by a search or known."""

    ids: list[int]
    """Token ids without BOS and EOS."""
    score: float
    """Value that ranks the hypotheses: the log-probability. Beam search divides it by the length
    penalty and adds the coverage penalty."""
    log_probability: float
    """Natural logarithm of the probability of all tokens and, if finished, EOS."""
    finished: bool
    """True if the hypothesis ended with EOS, False if it reached the length limit."""
    attention_weights: "Tensor | Any"
    """Attention weights (N, T, S). S counts EOS, and so does T if the hypothesis is finished. A
    tensor on the CPU, or a NumPy array if an exported model found the hypothesis."""
    token_log_probabilities: Sequence[float] = ()
    """Log-probability of each token and, if finished, EOS."""
