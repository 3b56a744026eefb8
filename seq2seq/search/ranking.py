"""How a beam ranks its hypotheses: log-probability under a length and a coverage penalty."""

# B sentences still searched, W hypotheses of each, R rows, N heads, S source length

import torch
from torch import Tensor

from seq2seq.search.config import BeamConfig


class Ranking:
    """Rank by the log-probability divided by the length penalty (Wu et al. 2016, eq. 14).

    s(Y) = log P(Y) / lp(|Y|) + cp(Y), where cp is 0 here.
    """

    def __init__(self, config: BeamConfig, *, limits: list[int], device: torch.device) -> None:
        self._penalties = torch.tensor(
            [config.penalty(length) for length in range(max(limits) + 1)],
            dtype=torch.float64,
            device=device,
        )

    def start_coverage(self, source_mask: Tensor) -> Tensor:
        """Return how much of each source token (B, 1, S) the empty hypothesis has attended to."""
        return source_mask.new_zeros(len(source_mask), 1, 0, dtype=torch.float32)

    def extend_coverage(self, coverage: Tensor, *, rows: Tensor, weights: Tensor) -> Tensor:
        """Add the attention of a step.

        Args:
            coverage: (B, W before the step, S).
            rows: that the hypotheses extend, (B, W).
            weights: of the step, (R, N, S).

        Returns:
            Coverage (B, W, S).
        """
        return coverage

    def scores(self, log_probabilities: Tensor, *, length: int, coverage: Tensor) -> Tensor:
        """Score hypotheses of one length, (B, W) float64."""
        return log_probabilities.double() / self._penalties[length]

    def bounds(self, log_probabilities: Tensor, *, limits: Tensor) -> Tensor:
        """Return what no finished extension of any hypothesis of a sentence exceeds, (B,).

        Let a live hypothesis have log-probability L <= 0 and n tokens, and let Y extend it to m
        tokens, n < m <= limit. Then log P(Y) <= L, for a token adds at most 0. Both forms of lp,
        ((5 + m) / 6) ** a and m ** a, are positive and do not fall with m for a >= 0, so L / lp(m)
        <= L / lp(limit) as L <= 0. And cp(Y) <= 0, with or without coverage: it sums logarithms
        of numbers of at most 1 with a weight of at least 0. It may reach 0 however low it stands
        now, because coverage only grows. Hence s(Y) <= log P(Y) / lp(m) <= L / lp(limit). The
        bound rises with L, so that of the most probable hypothesis holds for all.

        Args:
            log_probabilities: of live hypotheses, (B, W).
            limits: of the sentences, (B,).
        """
        return log_probabilities.amax(dim=1) / self._penalties[limits]


class CoverageRanking(Ranking):
    """Rank by the coverage of the source too (Wu et al. 2016, eq. 14).

    cp(Y) = b * sum_i log(min(sum_t p_ti, 1)): p_ti is the attention of the t-th token, the end
    included, to the i-th source token, the end included, averaged over heads. A token that got
    none counts as one that got the least number there is, so that scores stay finite.
    """

    def __init__(self, config: BeamConfig, *, limits: list[int], device: torch.device) -> None:
        super().__init__(config, limits=limits, device=device)
        self._config = config

    def start_coverage(self, source_mask: Tensor) -> Tensor:
        # Padding counts as covered, which costs nothing.
        return (~source_mask).float().unsqueeze(1)

    def extend_coverage(self, coverage: Tensor, *, rows: Tensor, weights: Tensor) -> Tensor:
        if weights.shape[1] == 0:
            self._config.check_without_attention()
        return coverage.flatten(0, 1)[rows] + weights.float().mean(dim=1)[rows]

    def scores(self, log_probabilities: Tensor, *, length: int, coverage: Tensor) -> Tensor:
        least = torch.finfo(coverage.dtype).tiny
        logarithms = coverage.clamp(min=least, max=1).double().log()  # (B, W, S)
        scores = super().scores(log_probabilities, length=length, coverage=coverage)
        return scores + self._config.coverage_penalty * logarithms.sum(dim=2)


def build_ranking(config: BeamConfig, *, limits: list[int], device: torch.device) -> Ranking:
    """Build the ranking that the config asks for."""
    ranking = CoverageRanking if config.coverage_penalty > 0 else Ranking
    return ranking(config, limits=limits, device=device)
