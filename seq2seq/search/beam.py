"""Beam search: extend the most probable hypotheses at each step."""

# B sentences still searched, W hypotheses of each (at most the beam size), R = B * W rows,
# Q finished hypotheses that are kept, N heads, S source length, V vocabulary

from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq.search.config import BeamConfig, EarlyStopping
from seq2seq.search.constraints import Constraints
from seq2seq.search.loop import Ending, Hypotheses, Live, Search, SearchedModel, SearchStep
from seq2seq.search.top_k import stable_topk_of_sums
from seq2seq.special_tokens import EOS


class Ranking:
    """Ranking by length and coverage (Wu et al. 2016, eq. 14).

    The score of a hypothesis Y is s(Y) = log P(Y) / lp(|Y|) + cp(Y), where lp is the length penalty
    and cp(Y) = b * sum_i log(min(sum_t p_ti, 1)). Here p_ti is the attention weight of source token
    i at target token t, averaged over heads; both include EOS. A source token without any attention
    counts as one with the smallest positive number, which keeps scores finite. With b = 0 no
    coverage is computed.
    """

    def __init__(self, config: BeamConfig, *, limits: list[int], device: torch.device) -> None:
        self._config = config
        self._penalties = torch.tensor(
            [config.penalty(length) for length in range(max(limits) + 1)],
            dtype=torch.float64,
            device=device,
        )

    def start_coverage(self, source_mask: Tensor) -> Tensor:
        """Return the coverage of each source token by the empty hypothesis, (B, 1, S or 0)."""
        if self._config.coverage_penalty == 0:
            source_mask = source_mask[:, :0]
        # Padding counts as covered: its penalty is 0.
        return (~source_mask).float().unsqueeze(1)

    def extend_coverage(self, coverage: Tensor, rows: Tensor, attention_weights: Tensor) -> Tensor:
        """Add the attention weights of a step.

        Args:
            coverage: Coverage before the step, (B, W before the step, S).
            rows: Row that each hypothesis extends, (B, W).
            attention_weights: (R, N, S).

        Returns:
            Coverage after the step, (B, W, S).
        """
        if self._config.coverage_penalty == 0:
            return coverage
        if attention_weights.shape[1] == 0:
            self._config.check_without_attention()
        return coverage.flatten(0, 1)[rows] + attention_weights.float().mean(dim=1)[rows]

    def scores(self, log_probabilities: Tensor, *, length: int, coverage: Tensor) -> Tensor:
        """Return the scores of hypotheses of one length, (B, W) float64."""
        scores = log_probabilities.double() / self._penalties[length]
        if self._config.coverage_penalty == 0:
            return scores
        smallest = torch.finfo(coverage.dtype).tiny
        logarithms = coverage.clamp(min=smallest, max=1).double().log()  # (B, W, S)
        return scores + self._config.coverage_penalty * logarithms.sum(dim=2)

    def bounds(self, log_probabilities: Tensor, *, limits: Tensor) -> Tensor:
        """Return an upper bound of the scores that live hypotheses can reach, (B,).

        Let a live hypothesis have log-probability L <= 0 and n tokens, and let Y extend it to m
        tokens, n < m <= limit. Then log P(Y) <= L, because each token adds at most 0. The length
        penalty lp(m) = ((5 + m) / 6) ** a is positive and does not decrease with m for a >= 0, so
        L / lp(m) <= L / lp(limit). The coverage penalty cp(Y) is at most 0: it sums logarithms of
        numbers of at most 1, times a weight of at least 0. Hence s(Y) <= log P(Y) / lp(m)
        <= L / lp(limit). The bound increases with L, so the most probable hypothesis bounds all.

        Args:
            log_probabilities: Log-probabilities of live hypotheses, (B, W).
            limits: Length limits of the sentences, (B,).
        """
        return log_probabilities.amax(dim=1) / self._penalties[limits]


class _Ranked(NamedTuple):
    """Scores and finished hypotheses of each sentence."""

    scores: Tensor  # (B, W)
    coverage: Tensor  # (B, W, S) total attention to each source token, or (B, W, 0)
    best_scores: Tensor  # (B, Q) scores of finished hypotheses, best first; -inf: none yet
    best_cells: Tensor  # (B, Q)


class BeamSearch(Search):
    """Keeps the most probable extensions, and sets finished hypotheses aside."""

    reorders = True

    def __init__(self, config: BeamConfig, source_mask: Tensor) -> None:
        super().__init__(config, source_mask)
        self._config = config
        self._ranking = Ranking(config, limits=self.limits, device=source_mask.device)
        self._is_exact = config.early_stopping is EarlyStopping.exact
        num_kept = config.n_best if self._is_exact else config.beam_size
        best = torch.zeros(len(self.limits), num_kept, dtype=torch.long, device=source_mask.device)
        self.ranked = _Ranked(
            scores=best[:, :1].double(),
            coverage=self._ranking.start_coverage(source_mask),
            best_scores=best.double() - torch.inf,
            best_cells=best,
        )

    def extend(
        self, live: Live, log_probabilities: Tensor, step: SearchStep, length: int
    ) -> tuple[Live, Tensor]:
        num_sentences, width = live.tokens.shape
        vocabulary_size = log_probabilities.shape[1]
        totals, chosen = stable_topk_of_sums(
            log_probabilities.view(num_sentences, width, -1), live.totals, self._config.beam_size
        )  # (B, W)
        parents = chosen // vocabulary_size
        tokens = chosen % vocabulary_size
        first_rows = torch.arange(num_sentences, device=parents.device).unsqueeze(1) * width
        rows = first_rows + parents
        weights = step.attention_weights
        cells = self.history.append(tokens, live.cells.gather(1, parents), rows, totals, weights)
        _, coverage, best_scores, best_cells = live.ranked
        coverage = self._ranking.extend_coverage(coverage, rows, weights)
        scores = self._ranking.scores(totals, length=length, coverage=coverage)
        # Finished hypotheses are set aside. Earlier ones come first and the sort is stable, so ties
        # go to the earlier one.
        ended = tokens == EOS
        num_kept = best_scores.shape[1]
        best_scores = torch.cat((best_scores, scores.masked_fill(~ended, -torch.inf)), dim=1)
        best_scores, order = best_scores.sort(dim=1, descending=True, stable=True)
        best_cells = torch.cat((best_cells, cells), dim=1).gather(1, order[:, :num_kept])
        totals = totals.masked_fill(ended, -torch.inf)
        return live._replace(
            tokens=tokens,
            cells=cells,
            totals=totals,
            is_live=totals > -torch.inf,
            ranked=_Ranked(scores, coverage, best_scores[:, :num_kept], best_cells),
        ), rows

    def goes_on(self, live: Live) -> Tensor:
        last_score = _Ranked(*live.ranked).best_scores[:, -1]
        if self._is_exact:  # a live hypothesis can still become one of the best; a tie cannot
            return self._ranking.bounds(live.totals, limits=live.limits) > last_score
        return live.is_live.any(dim=1) & (last_score == -torch.inf)

    def endings(self, live: Live) -> list[list[Ending]]:
        """Return the best hypotheses: finished ones, then live ones if too few."""
        scores, _, best_scores, best_cells = live.ranked
        scores = scores.masked_fill(~live.is_live, -torch.inf)
        scores, order = scores.sort(dim=1, descending=True, stable=True)
        scores = torch.cat((best_scores, scores), dim=1)
        cells = torch.cat((best_cells, live.cells.gather(1, order)), dim=1)
        found = zip(cells.tolist(), scores.tolist(), strict=True)
        return [
            [Ending(*end) for end in zip(*ends, strict=True) if end[1] > -torch.inf][
                : self._config.n_best
            ]
            for ends in found
        ]


def beam_search(
    model: SearchedModel,
    source_ids: Tensor,
    source_mask: Tensor,
    config: BeamConfig,
    constraints: Constraints,
) -> Hypotheses:
    """Return the `n_best` best finished hypotheses of each sentence.

    Each step keeps the `beam_size` most probable extensions of the live hypotheses. An extension
    that ends with EOS is finished and occupies a place of the beam for this step only. A sentence
    stops by the rule `early_stopping` or at its length limit. If fewer than `n_best` are finished
    by then, live hypotheses come last, even with higher scores. Ties go to the hypothesis that
    finished first, then to the extension of the better hypothesis, then to the lower token id.

    `search` calls this function with a `BeamConfig` and describes the arguments.
    """
    return BeamSearch(config, source_mask).run(model, source_ids, source_mask, constraints)
