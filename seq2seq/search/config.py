"""The decoding configurations: which search looks for a translation, and how far."""

from dataclasses import dataclass

from seq2seq.checks import check_positive


@dataclass(kw_only=True, slots=True)
class DecodingConfig:
    """What every search is configured by; `name` says which search it is."""

    name: str
    max_length_ratio: float
    """a translation has at most max_length_ratio * source length + max_length_offset pieces"""
    max_length_offset: int
    """both lengths count the end of the sentence"""

    def __post_init__(self) -> None:
        if not 0 <= self.max_length_ratio < float("inf"):
            raise ValueError(
                f"decoding.max_length_ratio={self.max_length_ratio} must be a number of at least 0"
            )
        check_positive("decoding", self, "max_length_offset")

    def max_length(self, source_length: int) -> int:
        """Return how many pieces a translation may have, the end of the sentence included."""
        return int(self.max_length_ratio * source_length) + self.max_length_offset


@dataclass(kw_only=True, slots=True)
class GreedyConfig(DecodingConfig):
    """The most probable piece at each step."""


@dataclass(kw_only=True, slots=True)
class BeamConfig(DecodingConfig):
    """The most probable hypotheses of each length, side by side."""

    beam_size: int
    num_best: int
    """hypotheses that are returned, at most beam_size"""
    length_penalty: float
    """exponent a of ((5 + length) / 6) ** a, which divides log-probabilities; 0: none"""

    def __post_init__(self) -> None:
        DecodingConfig.__post_init__(self)
        check_positive("decoding", self, "beam_size", "num_best")
        if self.num_best > self.beam_size:
            raise ValueError(
                f"decoding.num_best={self.num_best} must be at most "
                f"decoding.beam_size={self.beam_size}; raise the beam size with it"
            )
        if not 0 <= self.length_penalty < float("inf"):
            raise ValueError(
                f"decoding.length_penalty={self.length_penalty} must be a number of at least 0"
            )

    def penalty(self, length: int) -> float:
        """Return what divides the log-probability of a hypothesis (Wu et al. 2016, eq. 14)."""
        return float(((5 + length) / 6) ** self.length_penalty)
