"""Beam search: extend the most probable hypotheses at each step."""

# B sentences still searched, W hypotheses of each (at most the beam size), R = B * W rows,
# Q finished hypotheses that are kept, N heads, S source length, V vocabulary

from itertools import count
from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq.search.config import BeamConfig, EarlyStopping
from seq2seq.search.constraints import Constraints
from seq2seq.search.interface import (
    ROOT,
    Ending,
    History,
    Hypotheses,
    SearchedModel,
    length_limits,
)
from seq2seq.search.stepwise import BLOCK, block_maxima, stable_topk
from seq2seq.special_tokens import BOS, EOS


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


class _Beam(NamedTuple):
    """The hypotheses of each sentence after a step."""

    sentences: Tensor  # (B,) indices in the batch
    limits: Tensor  # (B,) maximum lengths of the hypotheses
    tokens: Tensor  # (B, W) last token of each hypothesis
    cells: Tensor  # (B, W)
    log_probabilities: Tensor  # (B, W); -inf: finished or impossible, not extended
    scores: Tensor  # (B, W)
    coverage: Tensor  # (B, W, S) total attention to each source token, or (B, W, 0)
    best_scores: Tensor  # (B, Q) scores of finished hypotheses, best first; -inf: none yet
    best_cells: Tensor  # (B, Q)

    def select(self, kept: Tensor) -> "_Beam":
        """Keep the given sentences."""
        return _Beam(*(part[kept] for part in self))


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
    stops by the rule `early_stopping` or at its length limit. If fewer than `n_best` are
    finished then, live hypotheses come last, even with higher scores. Ties go to the hypothesis
    that finished first, then to the extension of the better one, then to the lower token id.

    `search` calls this function with a `BeamConfig` and describes the arguments.
    """
    memory, state = model.encode(source_ids, source_mask)
    limits = length_limits(source_mask, config)
    ranking = Ranking(config, limits=limits, device=source_ids.device)
    is_exact = config.early_stopping is EarlyStopping.exact
    goes_on = _can_improve if is_exact else _has_room
    beam = _start(
        torch.tensor(limits, device=source_ids.device),
        coverage=ranking.start_coverage(source_mask),
        num_kept=config.n_best if is_exact else config.beam_size,
    )
    endings: list[list[Ending]] = [[] for _ in limits]
    history = History()
    for length in count(1):
        step = model.decoder.step(state, beam.tokens.flatten(), memory)
        live = (beam.log_probabilities > -torch.inf).flatten()
        log_probabilities = constraints.log_probabilities(step.logits, live=live)
        beam, rows = _extend(
            beam, log_probabilities, step.attention_weights, history, config.beam_size
        )
        coverage = ranking.extend_coverage(beam.coverage, rows, step.attention_weights)
        scores = ranking.scores(beam.log_probabilities, length=length, coverage=coverage)
        beam = _finish(beam._replace(coverage=coverage, scores=scores))
        live = goes_on(beam, ranking) & (beam.limits > length)
        if not live.all():
            # A mask would make the host wait for a count at each use; computing indices waits only
            # once.
            _store_best(beam.select((~live).nonzero().squeeze(1)), endings, n_best=config.n_best)
            kept = live.nonzero().squeeze(1)
            if not len(kept):
                break
            beam, rows, memory = beam.select(kept), rows[kept], memory.select(kept)
        state = step.state.select(rows.flatten())
        constraints = constraints.select(rows.flatten()).extend(beam.tokens.flatten())
    return history.hypotheses(endings, source_mask.sum(dim=1).tolist())


def _start(limits: Tensor, *, coverage: Tensor, num_kept: int) -> _Beam:
    """Return the empty hypothesis of each sentence."""
    sentences = torch.arange(len(limits), device=limits.device)
    first = torch.zeros_like(sentences).unsqueeze(1)  # (B, 1)
    best = first.expand(-1, num_kept)  # (B, Q)
    return _Beam(
        sentences=sentences,
        limits=limits,
        tokens=first + BOS,
        cells=first + ROOT,
        log_probabilities=first.float(),
        scores=first.double(),
        coverage=coverage,
        best_scores=best.double() - torch.inf,
        best_cells=best,
    )


def _extend(
    beam: _Beam,
    log_probabilities: Tensor,
    attention_weights: Tensor,
    history: History,
    beam_size: int,
) -> tuple[_Beam, Tensor]:
    """Replace the hypotheses by their most probable extensions.

    Args:
        beam: The hypotheses before the step.
        log_probabilities: Log-probabilities of the next tokens, (R, V).
        attention_weights: (R, N, S).
        history: Receives the extensions.
        beam_size: Number of extensions that each sentence keeps.

    Returns:
        The beam after the step, and the row that each hypothesis extends, (B, W).
    """
    num_sentences, width = beam.tokens.shape
    vocabulary_size = log_probabilities.shape[1]
    totals, chosen = stable_topk_of_sums(
        log_probabilities.view(num_sentences, width, -1), beam.log_probabilities, beam_size
    )  # (B, W)
    parents = chosen // vocabulary_size
    tokens = chosen % vocabulary_size
    first_rows = torch.arange(num_sentences, device=parents.device).unsqueeze(1) * width
    rows = first_rows + parents
    cells = history.append(
        tokens,
        parents=beam.cells.gather(1, parents),
        rows=rows,
        log_probabilities=totals,
        attention_weights=attention_weights,
    )
    return beam._replace(tokens=tokens, cells=cells, log_probabilities=totals), rows


def _finish(beam: _Beam) -> _Beam:
    """Move the hypotheses that ended in this step to the finished ones of their sentence."""
    ended = beam.tokens == EOS
    # Earlier hypotheses come first and the sort is stable, so ties go to the earlier one.
    scores = torch.cat((beam.best_scores, beam.scores.masked_fill(~ended, -torch.inf)), dim=1)
    cells = torch.cat((beam.best_cells, beam.cells), dim=1)
    scores, order = scores.sort(dim=1, descending=True, stable=True)
    num_kept = beam.best_scores.shape[1]
    return beam._replace(
        log_probabilities=beam.log_probabilities.masked_fill(ended, -torch.inf),
        best_scores=scores[:, :num_kept],
        best_cells=cells.gather(1, order[:, :num_kept]),
    )


def _can_improve(beam: _Beam, ranking: Ranking) -> Tensor:
    """Return whether a live hypothesis can still enter the best ones, (B,); a tie cannot."""
    return ranking.bounds(beam.log_probabilities, limits=beam.limits) > beam.best_scores[:, -1]


def _has_room(beam: _Beam, ranking: Ranking) -> Tensor:
    """Return whether there are live hypotheses and fewer finished ones than are kept, (B,)."""
    some_live = beam.log_probabilities.amax(dim=1) > -torch.inf
    return some_live & (beam.best_scores[:, -1] == -torch.inf)


def _store_best(beam: _Beam, endings: list[list[Ending]], *, n_best: int) -> None:
    """Store the best hypotheses of each sentence: finished ones, then live ones if too few.

    Args:
        beam: The sentences whose search ends.
        endings: Receives the best hypotheses of these sentences.
        n_best: Largest number of hypotheses of a sentence.
    """
    scores = beam.scores.masked_fill(beam.log_probabilities == -torch.inf, -torch.inf)
    scores, order = scores.sort(dim=1, descending=True, stable=True)
    scores = torch.cat((beam.best_scores, scores), dim=1)
    cells = torch.cat((beam.best_cells, beam.cells.gather(1, order)), dim=1)
    rows = zip(beam.sentences.tolist(), cells.tolist(), scores.tolist(), strict=True)
    for sentence, its_cells, its_scores in rows:
        found = zip(its_cells, its_scores, strict=True)
        endings[sentence] = [Ending(*end) for end in found if end[1] > -torch.inf][:n_best]


def stable_topk_of_sums(values: Tensor, offsets: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return `stable_topk` over all parts of a row, with an offset added to each part.

    The k largest values lie in the k blocks with the largest maxima, so few values are sorted;
    computing maxima takes a tenth of the time of `torch.topk`. Of blocks with equal maxima the
    first suffice, because the first of equal values are returned.

    Args:
        values: (B, W, V).
        offsets: (B, W).
        k: Number of values; more than W * V returns all.

    Returns:
        Values and indices into the W * V values of a row, (B, min(k, W * V)).
    """
    size = values.shape[2]
    maxima = block_maxima(values) + offsets.unsqueeze(2)
    num_blocks = maxima.shape[2]
    blocks = stable_topk(maxima.flatten(1), k)[1].sort(dim=1).values  # (B, k)
    parts = blocks // num_blocks
    places = (blocks % num_blocks * BLOCK).unsqueeze(2)
    places = places + torch.arange(BLOCK, device=places.device)  # (B, k, BLOCK)
    indices = (parts.unsqueeze(2) * size + places.clamp(max=size - 1)).flatten(1)
    candidates = values.flatten(1).gather(1, indices).view(places.shape)
    candidates = candidates + offsets.gather(1, parts).unsqueeze(2)
    candidates = candidates.masked_fill_(places >= size, -torch.inf).flatten(1)
    largest, order = stable_topk(candidates, min(k, values.shape[1] * size))
    return largest, indices.gather(1, order)
