"""Ranking of the hypotheses of a beam: log-probability, length penalty, coverage penalty."""

# B sentences still searched, W hypotheses of each, R rows, N heads, S source length

import torch
from torch import Tensor

from seq2seq.search.config import BeamConfig


class Ranking:
    """Ranking by log-probability divided by length penalty (Wu et al. 2016, eq. 14).

    The score of a hypothesis Y is s(Y) = log P(Y) / lp(|Y|) + cp(Y). Here cp(Y) = 0.
    """

    def __init__(self, config: BeamConfig, *, limits: list[int], device: torch.device) -> None:
        self._penalties = torch.tensor(
            [config.penalty(length) for length in range(max(limits) + 1)],
            dtype=torch.float64,
            device=device,
        )

    def start_coverage(self, source_mask: Tensor) -> Tensor:
        """Return the coverage of each source token by the empty hypothesis, (B, 1, S)."""
        return source_mask.new_zeros(len(source_mask), 1, 0, dtype=torch.float32)

    def extend_coverage(self, coverage: Tensor, rows: Tensor, attention_weights: Tensor) -> Tensor:
        """Add the attention weights of a step.

        Args:
            coverage: Coverage before the step, (B, W before the step, S).
            rows: Row that each hypothesis extends, (B, W).
            attention_weights: (R, N, S).

        Returns:
            Coverage after the step, (B, W, S).
        """
        return coverage

    def scores(self, log_probabilities: Tensor, *, length: int, coverage: Tensor) -> Tensor:
        """Return the scores of hypotheses of one length, (B, W) float64."""
        return log_probabilities.double() / self._penalties[length]

    def bounds(self, log_probabilities: Tensor, *, limits: Tensor) -> Tensor:
        """Return an upper bound of the scores that live hypotheses can reach, (B,).

        Let a live hypothesis have log-probability L <= 0 and n tokens, and let Y extend it to m
        tokens, n < m <= limit. Then log P(Y) <= L, because each token adds at most 0. Both forms
        of lp, ((5 + m) / 6) ** a and m ** a, are positive and do not decrease with m for a >= 0,
        so L / lp(m) <= L / lp(limit). The coverage penalty cp(Y) is at most 0: it sums logarithms
        of numbers of at most 1, times a weight of at least 0. Hence s(Y) <= log P(Y) / lp(m)
        <= L / lp(limit). The bound increases with L, so the most probable hypothesis bounds all.

        Args:
            log_probabilities: Log-probabilities of live hypotheses, (B, W).
            limits: Length limits of the sentences, (B,).
        """
        return log_probabilities.amax(dim=1) / self._penalties[limits]


class CoverageRanking(Ranking):
    """Ranking with the coverage penalty (Wu et al. 2016, eq. 14).

    cp(Y) = b * sum_i log(min(sum_t p_ti, 1)), where p_ti is the attention weight of source token i
    at target token t, averaged over heads; both include EOS. A source token without any attention
    counts as one with the smallest positive number, which keeps scores finite.
    """

    def __init__(self, config: BeamConfig, *, limits: list[int], device: torch.device) -> None:
        super().__init__(config, limits=limits, device=device)
        self._config = config

    def start_coverage(self, source_mask: Tensor) -> Tensor:
        # Padding counts as covered: its penalty is 0.
        return (~source_mask).float().unsqueeze(1)

    def extend_coverage(self, coverage: Tensor, rows: Tensor, attention_weights: Tensor) -> Tensor:
        if attention_weights.shape[1] == 0:
            self._config.check_without_attention()
        return coverage.flatten(0, 1)[rows] + attention_weights.float().mean(dim=1)[rows]

    def scores(self, log_probabilities: Tensor, *, length: int, coverage: Tensor) -> Tensor:
        smallest = torch.finfo(coverage.dtype).tiny
        logarithms = coverage.clamp(min=smallest, max=1).double().log()  # (B, W, S)
        scores = super().scores(log_probabilities, length=length, coverage=coverage)
        return scores + self._config.coverage_penalty * logarithms.sum(dim=2)


def build_ranking(config: BeamConfig, *, limits: list[int], device: torch.device) -> Ranking:
    """Return the ranking of a config, with the coverage penalty if it has one."""
    ranking = CoverageRanking if config.coverage_penalty > 0 else Ranking
    return ranking(config, limits=limits, device=device)
