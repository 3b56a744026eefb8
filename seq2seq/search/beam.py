"""Beam search: keep the most probable hypotheses of each length side by side."""

# B sentences still searched, W hypotheses of each (at most the beam size), R = B * W rows,
# Q finished hypotheses that are kept, S source length, V vocabulary

from collections.abc import Callable
from itertools import count
from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq.search.backpointers import ROOT, Ending, History
from seq2seq.search.base import (
    Hypotheses,
    allowed_log_probabilities,
    length_limits,
    register_search,
)
from seq2seq.search.config import BeamConfig, EarlyStopping
from seq2seq.search.constraints import Constraints
from seq2seq.search.protocols import SearchedModel
from seq2seq.search.ranking import Ranking, build_ranking
from seq2seq.search.topk import stable_topk_of_sums
from seq2seq.special_tokens import BOS, EOS


class _Beam(NamedTuple):
    """Where the search of each sentence stands."""

    sentences: Tensor  # (B,) which of the batch these are
    limits: Tensor  # (B,) how long their hypotheses may grow
    tokens: Tensor  # (B, W) the last of each hypothesis
    cells: Tensor  # (B, W)
    log_probabilities: Tensor  # (B, W); -inf: finished or impossible, never extended
    coverage: Tensor  # (B, W, S) attention that each source token got; (B, W, 0) if not needed
    best_scores: Tensor  # (B, Q) of finished hypotheses, the best first; -inf: none yet
    best_cells: Tensor  # (B, Q)

    def select(self, kept: Tensor) -> "_Beam":
        """Keep the given sentences."""
        return _Beam(*(part[kept] for part in self))


@register_search(BeamConfig)
def beam_search(
    model: SearchedModel,
    source_ids: Tensor,
    source_mask: Tensor,
    config: BeamConfig,
    constraints: Constraints,
) -> Hypotheses:
    """Return the `n_best` best finished hypotheses that a beam meets.

    Each step keeps the `beam_size` best extensions of the live hypotheses; those that end with
    EOS are finished and leave their place to others. With `early_stopping=exact` a sentence ends
    when no live hypothesis can still beat the last of its best, so ending early changes no
    result; with `first` it ends when `beam_size` hypotheses are finished. Where fewer than
    `n_best` are finished at the end, live ones follow them. Equal scores go to the hypothesis
    that was finished first, then to the one that extends the better hypothesis, then to the
    lower id.
    """
    memory, state = model.encode(source_ids, source_mask)
    limits = length_limits(source_mask, config)
    ranking = build_ranking(config, limits=limits, device=source_ids.device)
    stop = _STOPS[config.early_stopping]
    beam = _start(
        torch.tensor(limits, device=source_ids.device),
        coverage=ranking.start_coverage(source_mask),
        num_kept=stop.num_kept(config),
    )
    endings: list[list[Ending]] = [[] for _ in limits]
    history = History()
    for length in count(1):
        step = model.decoder.step(state, beam.tokens.flatten(), memory)
        log_probabilities = constraints.apply(
            allowed_log_probabilities(step.logits),
            live=(beam.log_probabilities > -torch.inf).flatten(),
        )
        beam, rows = _extend(
            beam, log_probabilities, step.attention_weights, history, config.beam_size
        )
        coverage = ranking.extend_coverage(beam.coverage, rows=rows, weights=step.attention_weights)
        beam = beam._replace(coverage=coverage)
        scores = ranking.scores(beam.log_probabilities, length=length, coverage=coverage)
        beam = _finish(beam, scores)
        live = stop.goes_on(beam, ranking) & (beam.limits > length)
        if not live.all():
            _collect(beam.select(~live), scores[~live], endings, n_best=config.n_best)
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
        coverage=coverage,
        best_scores=best.double() - torch.inf,
        best_cells=best,
    )


def _extend(
    beam: _Beam, log_probabilities: Tensor, weights: Tensor, history: History, beam_size: int
) -> tuple[_Beam, Tensor]:
    """Replace the hypotheses by their best extensions.

    Args:
        beam: with live hypotheses.
        log_probabilities: of their next tokens, (R, V).
        weights: attention of the step, (R, N, S).
        history: gets the extensions.
        beam_size: how many a sentence keeps.

    Returns:
        The beam after the step and the row (B, W) that each hypothesis extends.
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
        weights=weights,
    )
    return beam._replace(tokens=tokens, cells=cells, log_probabilities=totals), rows


def _finish(beam: _Beam, scores: Tensor) -> _Beam:
    """Move the hypotheses that have just ended to the best of their sentence."""
    ended = beam.tokens == EOS
    # Earlier ones stand first, and the order is stable: an equal score displaces nothing.
    scores = torch.cat((beam.best_scores, scores.masked_fill(~ended, -torch.inf)), dim=1)
    cells = torch.cat((beam.best_cells, beam.cells), dim=1)
    scores, order = scores.sort(dim=1, descending=True, stable=True)
    num_kept = beam.best_scores.shape[1]
    return beam._replace(
        log_probabilities=beam.log_probabilities.masked_fill(ended, -torch.inf),
        best_scores=scores[:, :num_kept],
        best_cells=cells.gather(1, order[:, :num_kept]),
    )


class _Stop(NamedTuple):
    """When the search of a sentence ends before the length limit."""

    num_kept: Callable[[BeamConfig], int]
    """finished hypotheses that must be kept to know it"""
    goes_on: Callable[[_Beam, Ranking], Tensor]
    """says of each sentence whether it does not end yet, (B,)"""


def _can_improve(beam: _Beam, ranking: Ranking) -> Tensor:
    """Say whether a live hypothesis may still enter the best; an equal score would not."""
    return ranking.bounds(beam.log_probabilities, limits=beam.limits) > beam.best_scores[:, -1]


def _has_room(beam: _Beam, ranking: Ranking) -> Tensor:
    """Say whether fewer hypotheses are finished than are kept, and some are live."""
    some_live = beam.log_probabilities.amax(dim=1) > -torch.inf
    return some_live & (beam.best_scores[:, -1] == -torch.inf)


_STOPS = {
    EarlyStopping.exact: _Stop(lambda config: config.n_best, _can_improve),
    EarlyStopping.first: _Stop(lambda config: config.beam_size, _has_room),
}


def _collect(beam: _Beam, scores: Tensor, endings: list[list[Ending]], *, n_best: int) -> None:
    """Note the best of each sentence and, where too few are finished, live ones after them.

    Args:
        beam: of the sentences that end.
        scores: of all their hypotheses, (B, W).
        endings: get the best of these sentences.
        n_best: how many a sentence gets at most.
    """
    scores = scores.masked_fill(beam.log_probabilities == -torch.inf, -torch.inf)
    scores, order = scores.sort(dim=1, descending=True, stable=True)
    scores = torch.cat((beam.best_scores, scores), dim=1)
    cells = torch.cat((beam.best_cells, beam.cells.gather(1, order)), dim=1)
    rows = zip(beam.sentences.tolist(), cells.tolist(), scores.tolist(), strict=True)
    for sentence, its_cells, its_scores in rows:
        found = zip(its_cells, its_scores, strict=True)
        endings[sentence] = [Ending(*end) for end in found if end[1] > -torch.inf][:n_best]
