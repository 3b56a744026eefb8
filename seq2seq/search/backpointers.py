"""What a search has produced so far, kept so that hypotheses are traced back once, at its end."""

# B sentences still searched, W hypotheses of each, R rows of the model, N heads, S source length

import math
from itertools import accumulate
from typing import NamedTuple

import torch
from torch import Tensor

from seq2seq.search.base import Hypothesis
from seq2seq.special_tokens import EOS

ROOT = -1
"""the parent of a hypothesis's first token"""
JOINED_STEPS = 64
"""steps whose weights become one tensor"""


class Ending(NamedTuple):
    """The last cell of a hypothesis that is to be returned."""

    cell: int
    score: float


class History:
    """Every token that was ever part of a hypothesis: one cell each, numbered through all steps.

    A cell knows its parent cell, so sentences may leave and hypotheses be reordered without
    anything being copied.
    """

    def __init__(self) -> None:
        self._links: list[Tensor] = []  # per step (3, B * W): tokens, parent cells, weight rows
        self._log_probabilities: list[Tensor] = []  # per step (B * W,)
        self._weights: list[Tensor] = []  # per step (R, N, S), of the latest
        self._joined_weights: list[Tensor] = []  # of the steps before them
        self._num_cells = 0
        self._num_rows = 0

    def append(
        self,
        tokens: Tensor,
        *,
        parents: Tensor,
        rows: Tensor,
        log_probabilities: Tensor,
        weights: Tensor,
    ) -> Tensor:
        """Add the cells of one step.

        Args:
            tokens: ids that were produced, (B, W).
            parents: cells that they extend, or `ROOT`, (B, W).
            rows: rows of `weights` that they were produced from, (B, W).
            log_probabilities: of the hypotheses up to and with these tokens, (B, W).
            weights: attention of the model's rows, (R, N, S).

        Returns:
            The numbers of the new cells, (B, W).
        """
        links = torch.stack((tokens, parents, rows + self._num_rows))
        self._links.append(links.flatten(1))
        self._log_probabilities.append(log_probabilities.flatten())
        self._append_weights(weights)
        first = self._num_cells
        self._num_cells += tokens.numel()
        self._num_rows += weights.shape[0]
        return torch.arange(first, self._num_cells, device=tokens.device).view_as(tokens)

    def hypotheses(
        self, endings: list[list[Ending]], source_lengths: list[int]
    ) -> list[list[Hypothesis]]:
        """Trace each ending back to its first token.

        Args:
            endings: for each sentence, the best first.
            source_lengths: of each sentence, EOS included.
        """
        links = torch.cat(self._links, dim=1)
        tokens, parents, rows = links.tolist()
        totals = torch.cat(self._log_probabilities)
        by_token = _differences(totals, links[1]).tolist()
        log_probabilities = totals.tolist()
        _check_numbers(log_probabilities)
        for ends in endings:
            _check_possible([log_probabilities[end.cell] for end in ends])
        paths = [[_trace(end.cell, parents) for end in ends] for ends in endings]
        used = [rows[cell] for of_sentence in paths for path in of_sentence for cell in path]
        weights = self._gather_weights(used)
        lengths = [len(path) for of_sentence in paths for path in of_sentence]
        stops = iter(accumulate(lengths))

        def hypothesis(path: list[int], score: float, source_length: int) -> Hypothesis:
            ids = [tokens[cell] for cell in path]
            finished = ids[-1] == EOS
            stop = next(stops)
            part = weights[stop - len(path) : stop, :, :source_length]  # (T, N, S)
            return Hypothesis(
                ids=ids[:-1] if finished else ids,
                score=score,
                log_probability=log_probabilities[path[-1]],
                finished=finished,
                attention_weights=part.transpose(0, 1),
                token_log_probabilities=[by_token[cell] for cell in path],
            )

        return [
            [hypothesis(path, end.score, length) for path, end in zip(of, ends, strict=True)]
            for of, ends, length in zip(paths, endings, source_lengths, strict=True)
        ]

    def _append_weights(self, weights: Tensor) -> None:
        """Keep the weights of a step.

        Small tensors that stay among large ones that a step frees can keep the memory of these
        from being used again: 600 MB were lost to it in a sentence of 1,044 tokens.
        """
        self._weights.append(weights)
        if len(self._weights) == JOINED_STEPS:
            self._joined_weights.append(torch.cat(self._weights))
            self._weights.clear()

    def _gather_weights(self, rows: list[int]) -> Tensor:
        """Return the given rows (len(rows), N, S), moved to the CPU at once."""
        weights = torch.cat([*self._joined_weights, *self._weights])
        return weights[torch.tensor(rows, device=weights.device)].float().cpu()


def _trace(cell: int, parents: list[int]) -> list[int]:
    """Return the cells from the first token to this one."""
    path = []
    while cell != ROOT:
        path.append(cell)
        cell = parents[cell]
    return path[::-1]


def _differences(totals: Tensor, parents: Tensor) -> Tensor:
    """Return by how much each cell's total is above its parent's, to about 1e-7 of the total."""
    # The place before the first, where ROOT leads, is the last: the total of no tokens.
    padded = torch.nn.functional.pad(totals.double(), (0, 1))
    return padded[:-1] - padded[parents]


def _check_numbers(log_probabilities: list[float]) -> None:
    if any(map(math.isnan, log_probabilities)):
        raise ValueError(
            "the model's probabilities are not numbers (NaN); translate with precision=fp32, "
            "or take an earlier checkpoint"
        )


def _check_possible(log_probabilities: list[float]) -> None:
    """Raise ValueError unless a sentence has hypotheses and all of them are possible."""
    if not log_probabilities or -math.inf in log_probabilities:
        raise ValueError(
            "no translation is possible: a hypothesis has reached a step at which every token, "
            "EOS included, is banned or has probability 0; ban fewer sequences, or check that "
            "the logits of the model are finite"
        )
