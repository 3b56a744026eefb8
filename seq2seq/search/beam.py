"""Beam search: keep the most probable hypotheses of each length side by side."""

# B sentences still searched, W hypotheses of each (at most the beam size), R = B * W rows,
# Q hypotheses that are to be returned, S source length, V vocabulary

from itertools import count
from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq.data.tokenizer import BOS, EOS
from seq2seq.model import Seq2Seq
from seq2seq.search.base import (
    Hypotheses,
    allowed_log_probabilities,
    length_limits,
    register_search,
)
from seq2seq.search.config import BeamConfig
from seq2seq.search.history import ROOT, Ending, History


class _Beam(NamedTuple):
    """Where the search of each sentence stands."""

    sentences: Tensor  # (B,) which of the batch these are
    limits: Tensor  # (B,) how long their hypotheses may grow
    pieces: Tensor  # (B, W) the last of each hypothesis
    cells: Tensor  # (B, W)
    log_probabilities: Tensor  # (B, W); -inf: finished or impossible, never extended
    best_scores: Tensor  # (B, Q) of finished hypotheses, the best first; -inf: none yet
    best_cells: Tensor  # (B, Q)

    def select(self, kept: Tensor) -> "_Beam":
        """Keep the given sentences."""
        return _Beam(*(part[kept] for part in self))


@register_search("beam", BeamConfig)
def beam_search(
    model: Seq2Seq, source_ids: Tensor, source_mask: Tensor, config: BeamConfig
) -> Hypotheses:
    """Return the `num_best` best finished hypotheses that a beam meets.

    Each step keeps the `beam_size` best extensions of the live hypotheses; those that end with
    EOS are finished and leave their place to others. A sentence ends when no live hypothesis can
    still beat the last of its best, so ending early changes no result. Where fewer than
    `num_best` are finished at the length limit, live ones follow them. Equal scores go to the
    hypothesis that was finished first, then to the one that extends the better hypothesis, then
    to the lower id.
    """
    memory, state = model.encode(source_ids, source_mask)
    limits = length_limits(source_mask, config)
    penalties = torch.tensor(
        [config.penalty(length) for length in range(max(limits) + 1)],
        dtype=torch.float64,
        device=source_ids.device,
    )
    beam = _start(torch.tensor(limits, device=source_ids.device), num_best=config.num_best)
    endings: list[list[Ending]] = [[] for _ in limits]
    history = History()
    for length in count(1):
        step = model.decoder.step(state, beam.pieces.flatten(), memory)
        log_probabilities = allowed_log_probabilities(step.logits)
        beam, rows = _extend(beam, log_probabilities, step.weights, history, config.beam_size)
        beam = _finish(beam, penalties[length])
        live = _can_improve(beam, penalties) & (beam.limits > length)
        if not live.all():
            kept = live.nonzero().squeeze(1)
            _collect(beam.select(~live), penalties[length], endings)
            if not len(kept):
                break
            beam, rows, memory = beam.select(kept), rows[kept], memory.select(kept)
        state = step.state.select(rows.flatten())
    return history.hypotheses(endings, source_mask.sum(dim=1).tolist())


def _start(limits: Tensor, *, num_best: int) -> _Beam:
    """Return the empty hypothesis of each sentence."""
    sentences = torch.arange(len(limits), device=limits.device)
    first = torch.zeros_like(sentences).unsqueeze(1)  # (B, 1)
    best = first.expand(-1, num_best)  # (B, Q)
    return _Beam(
        sentences=sentences,
        limits=limits,
        pieces=first + BOS,
        cells=first + ROOT,
        log_probabilities=first.float(),
        best_scores=best.double() - torch.inf,
        best_cells=best,
    )


def _extend(
    beam: _Beam, log_probabilities: Tensor, weights: Tensor, history: History, beam_size: int
) -> tuple[_Beam, Tensor]:
    """Replace the hypotheses by their best extensions.

    Args:
        beam: with live hypotheses.
        log_probabilities: of their next pieces, (R, V).
        weights: attention of the step, (R, N, S).
        history: gets the extensions.
        beam_size: how many a sentence keeps.

    Returns:
        The beam after the step and the row (B, W) that each hypothesis extends.
    """
    num_sentences, width = beam.pieces.shape
    vocabulary_size = log_probabilities.shape[1]
    totals = log_probabilities.view(num_sentences, width, -1) + beam.log_probabilities.unsqueeze(2)
    totals, chosen = stable_topk(totals.flatten(1), beam_size)  # (B, W)
    parents = chosen // vocabulary_size
    pieces = chosen % vocabulary_size
    first_rows = torch.arange(num_sentences, device=parents.device).unsqueeze(1) * width
    rows = first_rows + parents
    cells = history.append(
        pieces,
        parents=beam.cells.gather(1, parents),
        rows=rows,
        log_probabilities=totals,
        weights=weights,
    )
    return beam._replace(pieces=pieces, cells=cells, log_probabilities=totals), rows


def _finish(beam: _Beam, penalty: Tensor) -> _Beam:
    """Move the hypotheses that have just ended to the best of their sentence."""
    ended = beam.pieces == EOS
    scores = (beam.log_probabilities.double() / penalty).masked_fill(~ended, -torch.inf)
    # Earlier ones stand first, and the order is stable: an equal score displaces nothing.
    scores = torch.cat((beam.best_scores, scores), dim=1)
    cells = torch.cat((beam.best_cells, beam.cells), dim=1)
    scores, order = scores.sort(dim=1, descending=True, stable=True)
    num_best = beam.best_scores.shape[1]
    return beam._replace(
        log_probabilities=beam.log_probabilities.masked_fill(ended, -torch.inf),
        best_scores=scores[:, :num_best],
        best_cells=cells.gather(1, order[:, :num_best]),
    )


def _can_improve(beam: _Beam, penalties: Tensor) -> Tensor:
    """Say for each sentence whether a live hypothesis may still enter its best, (B,).

    Log-probabilities only fall and the penalty only grows with length, so no extension of a
    hypothesis scores better than its own log-probability under the penalty of the limit.
    """
    bounds = beam.log_probabilities.amax(dim=1) / penalties[beam.limits]
    return bounds > beam.best_scores[:, -1]


def _collect(beam: _Beam, penalty: Tensor, endings: list[list[Ending]]) -> None:
    """Note the best of each sentence and, where too few are finished, live ones after them."""
    num_best = beam.best_scores.shape[1]
    scores = torch.cat((beam.best_scores, beam.log_probabilities.double() / penalty), dim=1)
    cells = torch.cat((beam.best_cells, beam.cells), dim=1)
    rows = zip(beam.sentences.tolist(), cells.tolist(), scores.tolist(), strict=True)
    for sentence, its_cells, its_scores in rows:
        found = zip(its_cells, its_scores, strict=True)
        endings[sentence] = [Ending(*end) for end in found if end[1] > -torch.inf][:num_best]


def stable_topk(values: Tensor, k: int) -> tuple[Tensor, Tensor]:
    """Return the k largest of each row, the largest first, equal ones by lower index.

    `torch.topk` promises neither which of equal values it returns nor their order. Equal values
    of -inf may come in any order here too.

    Args:
        values: (B, M).
        k: where it exceeds M, all are returned.

    Returns:
        Values and indices, (B, min(k, M)).
    """
    if k >= values.shape[1]:
        return values.sort(dim=1, descending=True, stable=True)
    # One more than asked for shows whether equal values stand on both sides of the border.
    largest, indices = values.topk(k + 1)
    torn = (largest[:, k - 1] == largest[:, k]) & (largest[:, k] > -torch.inf)
    indices = indices[:, :k].sort(dim=1).values
    largest, order = values.gather(1, indices).sort(dim=1, descending=True, stable=True)
    indices = indices.gather(1, order)
    if torn.any():
        whole, order = values[torn].sort(dim=1, descending=True, stable=True)
        largest[torn], indices[torn] = whole[:, :k], order[:, :k]
    return largest, indices
