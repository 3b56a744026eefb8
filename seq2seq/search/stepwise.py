"""Stepwise search, shared by greedy search and sampling: choose one token per step and row."""

# B sentences still searched, W hypotheses of each, R = B * W rows, S source length, V vocabulary

from collections.abc import Callable
from itertools import count
from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq.search.backpointers import ROOT, Ending, History
from seq2seq.search.base import Hypotheses
from seq2seq.search.constraints import Constraints
from seq2seq.search.protocols import SearchedModel
from seq2seq.special_tokens import BOS, EOS


class _Progress(NamedTuple):
    """The hypotheses of each sentence after a step."""

    sentences: Tensor  # (B,) indices in the batch
    limits: Tensor  # (B,) largest lengths of the hypotheses
    tokens: Tensor  # (B, W) last token of each hypothesis
    cells: Tensor  # (B, W)
    log_probabilities: Tensor  # (B, W)
    live: Tensor  # (B, W) bool; an ended hypothesis stays unchanged until all of its sentence end

    def select(self, kept: Tensor) -> "_Progress":
        """Keep the given sentences."""
        return _Progress(*(part[kept] for part in self))


def stepwise_search(
    model: SearchedModel,
    source_ids: Tensor,
    source_mask: Tensor,
    constraints: Constraints,
    *,
    limits: list[int],
    width: int,
    choose: Callable[[Tensor, Tensor, int], tuple[Tensor, Tensor]],
) -> Hypotheses:
    """Return W hypotheses of each sentence, unsorted.

    A hypothesis ends with EOS or at the length limit of its sentence. A sentence leaves the batch
    when all of its hypotheses have ended.

    Args:
        model: As of `search`, like the arguments up to `constraints`.
        limits: Length limit of each sentence.
        width: Number of hypotheses of a sentence, W.
        choose: Returns the log-probability and the id of the next token of each row, (R,). Its
            arguments are the log-probabilities (R, V), the indices in the batch of the sentences
            that the rows belong to, W rows each, (B,), and the length including this token.
    """
    memory, state = model.encode(source_ids, source_mask)
    progress = _start(torch.tensor(limits, device=source_ids.device), width=width)
    rows = progress.sentences.repeat_interleave(width)
    state, constraints = state.select(rows), constraints.select(rows)
    endings: list[list[Ending]] = [[] for _ in limits]
    history = History()
    for length in count(1):
        step = model.decoder.step(state, progress.tokens.flatten(), memory)
        live = progress.live.flatten()
        log_probabilities = constraints.log_probabilities(step.logits, live=live)
        chosen = choose(log_probabilities, progress.sentences, length)
        progress = _append(progress, *chosen, step.attention_weights, history)
        state, constraints = step.state, constraints.extend(progress.tokens.flatten())
        stays = progress.live.any(dim=1) & (progress.limits > length)
        if not stays.all():
            # A mask would make the host wait for its count at each use, indices wait once.
            _store_endings(progress.select((~stays).nonzero().squeeze(1)), endings)
            kept = stays.nonzero().squeeze(1)
            if not len(kept):
                break
            all_rows = torch.arange(len(rows), device=kept.device)
            rows = all_rows.view_as(progress.tokens)[kept].flatten()
            progress, memory = progress.select(kept), memory.select(kept)
            state, constraints = state.select(rows), constraints.select(rows)
    return history.hypotheses(endings, source_mask.sum(dim=1).tolist())


def _start(limits: Tensor, *, width: int) -> _Progress:
    """Return the empty hypotheses of each sentence."""
    sentences = torch.arange(len(limits), device=limits.device)
    zeros = torch.zeros_like(sentences).unsqueeze(1).expand(-1, width)  # (B, W)
    return _Progress(
        sentences=sentences,
        limits=limits,
        tokens=zeros + BOS,
        cells=zeros + ROOT,
        log_probabilities=zeros.float(),
        live=zeros == 0,
    )


def _append(
    progress: _Progress,
    log_probabilities: Tensor,
    tokens: Tensor,
    attention_weights: Tensor,
    history: History,
) -> _Progress:
    """Append the chosen tokens (R,) to the hypotheses."""
    tokens = tokens.view_as(progress.cells)
    totals = progress.log_probabilities + log_probabilities.view_as(progress.cells)
    cells = history.append(
        tokens,
        parents=progress.cells,
        rows=torch.arange(tokens.numel(), device=tokens.device).view_as(tokens),
        log_probabilities=totals,
        attention_weights=attention_weights,
    )
    return progress._replace(
        tokens=tokens,
        cells=torch.where(progress.live, cells, progress.cells),
        log_probabilities=torch.where(progress.live, totals, progress.log_probabilities),
        live=progress.live & (tokens != EOS),
    )


def _store_endings(progress: _Progress, endings: list[list[Ending]]) -> None:
    """Store the last cells of sentences whose hypotheses have all ended."""
    rows = zip(
        progress.sentences.tolist(),
        progress.cells.tolist(),
        progress.log_probabilities.tolist(),
        strict=True,
    )
    for sentence, cells, scores in rows:
        endings[sentence] = list(map(Ending, cells, scores))
