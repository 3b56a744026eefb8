"""Greedy search: take the most probable piece at each step."""

# B sentences still searched, S source length

from itertools import count

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
from seq2seq.search.config import GreedyConfig
from seq2seq.search.history import ROOT, Ending, History


@register_search("greedy", GreedyConfig)
def greedy_search(
    model: Seq2Seq, source_ids: Tensor, source_mask: Tensor, config: GreedyConfig
) -> Hypotheses:
    """Return one hypothesis a sentence; equal probabilities go to the lower id."""
    memory, state = model.encode(source_ids, source_mask)
    limits = torch.tensor(length_limits(source_mask, config), device=source_ids.device)
    sentences = torch.arange(len(limits), device=source_ids.device)  # (B,)
    pieces = torch.full_like(sentences, BOS)
    cells = torch.full_like(sentences, ROOT)
    totals = torch.zeros_like(sentences, dtype=torch.float32)
    last_cells = torch.empty_like(sentences)
    last_totals = torch.empty_like(totals)
    history = History()
    for length in count(1):
        step = model.decoder.step(state, pieces, memory)
        best, pieces = allowed_log_probabilities(step.logits).max(dim=-1)
        totals = totals + best
        cells = history.append(
            pieces,
            parents=cells,
            rows=torch.arange(len(pieces), device=pieces.device),
            log_probabilities=totals,
            weights=step.weights,
        )
        last_cells[sentences] = cells
        last_totals[sentences] = totals
        live = (pieces != EOS) & (limits[sentences] > length)
        state = step.state
        if not live.all():
            kept = live.nonzero().squeeze(1)
            if not len(kept):
                break
            memory, state = memory.select(kept), state.select(kept)
            sentences, pieces, cells, totals = (
                part[kept] for part in (sentences, pieces, cells, totals)
            )
    endings = [
        [Ending(cell, score)]
        for cell, score in zip(last_cells.tolist(), last_totals.tolist(), strict=True)
    ]
    return history.hypotheses(endings, source_mask.sum(dim=1).tolist())
