"""Follow one choice of a token at each step: what greedy search and sampling share."""

# B sentences still searched, W hypotheses of each, R = B * W rows, S source length, V vocabulary

from itertools import count
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from seq2seq.search.backpointers import ROOT, Ending, History
from seq2seq.search.base import Hypotheses, allowed_log_probabilities
from seq2seq.search.constraints import Constraints
from seq2seq.search.protocols import SearchedModel
from seq2seq.special_tokens import BOS, EOS


class Chosen(NamedTuple):
    """The next token of each row, and its log-probability."""

    log_probabilities: Tensor  # (R,)
    tokens: Tensor  # (R,)


class Choice(Protocol):
    """How a token is chosen."""

    @property
    def width(self) -> int:
        """Return how many hypotheses of a sentence are followed."""

    def __call__(self, log_probabilities: Tensor, *, sentences: Tensor, length: int) -> Chosen:
        """Choose a token for every row.

        Args:
            log_probabilities: (R, V).
            sentences: which of the batch the rows belong to, W rows each, (B,).
            length: of the hypotheses with this token.
        """


class _Walk(NamedTuple):
    """Where the hypotheses of each sentence stand."""

    sentences: Tensor  # (B,) which of the batch these are
    limits: Tensor  # (B,) how long their hypotheses may grow
    tokens: Tensor  # (B, W) the last of each hypothesis
    cells: Tensor  # (B, W)
    log_probabilities: Tensor  # (B, W)
    live: Tensor  # (B, W) bool; one that has ended waits as it is for the others of its sentence

    def select(self, kept: Tensor) -> "_Walk":
        """Keep the given sentences."""
        return _Walk(*(part[kept] for part in self))


def follow(
    model: SearchedModel,
    source_ids: Tensor,
    source_mask: Tensor,
    constraints: Constraints,
    *,
    limits: list[int],
    choose: Choice,
) -> Hypotheses:
    """Return the W hypotheses of each sentence, in no order.

    A hypothesis ends with EOS or at the limit of its sentence; a sentence leaves the batch when
    all of its hypotheses have ended.
    """
    memory, state = model.encode(source_ids, source_mask)
    walk = _start(torch.tensor(limits, device=source_ids.device), width=choose.width)
    rows = walk.sentences.repeat_interleave(choose.width)
    state, constraints = state.select(rows), constraints.select(rows)
    endings: list[list[Ending]] = [[] for _ in limits]
    history = History()
    for length in count(1):
        step = model.decoder.step(state, walk.tokens.flatten(), memory)
        log_probabilities = constraints.apply(
            allowed_log_probabilities(step.logits), live=walk.live.flatten()
        )
        chosen = choose(log_probabilities, sentences=walk.sentences, length=length)
        walk = _advance(walk, chosen, step.attention_weights, history)
        state, constraints = step.state, constraints.extend(chosen.tokens)
        stays = walk.live.any(dim=1) & (walk.limits > length)
        if not stays.all():
            _collect(walk.select(~stays), endings)
            kept = stays.nonzero().squeeze(1)
            if not len(kept):
                break
            rows = torch.arange(len(rows), device=kept.device).view_as(walk.tokens)[kept].flatten()
            walk, memory = walk.select(kept), memory.select(kept)
            state, constraints = state.select(rows), constraints.select(rows)
    return history.hypotheses(endings, source_mask.sum(dim=1).tolist())


def _start(limits: Tensor, *, width: int) -> _Walk:
    """Return the empty hypotheses of each sentence."""
    sentences = torch.arange(len(limits), device=limits.device)
    zeros = torch.zeros_like(sentences).unsqueeze(1).expand(-1, width)  # (B, W)
    return _Walk(
        sentences=sentences,
        limits=limits,
        tokens=zeros + BOS,
        cells=zeros + ROOT,
        log_probabilities=zeros.float(),
        live=zeros == 0,
    )


def _advance(walk: _Walk, chosen: Chosen, weights: Tensor, history: History) -> _Walk:
    """Give the hypotheses their next tokens."""
    tokens = chosen.tokens.view_as(walk.cells)
    totals = walk.log_probabilities + chosen.log_probabilities.view_as(walk.cells)
    cells = history.append(
        tokens,
        parents=walk.cells,
        rows=torch.arange(tokens.numel(), device=tokens.device).view_as(tokens),
        log_probabilities=totals,
        weights=weights,
    )
    return walk._replace(
        tokens=tokens,
        cells=torch.where(walk.live, cells, walk.cells),
        log_probabilities=torch.where(walk.live, totals, walk.log_probabilities),
        live=walk.live & (tokens != EOS),
    )


def _collect(walk: _Walk, endings: list[list[Ending]]) -> None:
    """Note where the hypotheses of each sentence have ended."""
    rows = zip(
        walk.sentences.tolist(), walk.cells.tolist(), walk.log_probabilities.tolist(), strict=True
    )
    for sentence, cells, scores in rows:
        endings[sentence] = list(map(Ending, cells, scores))
