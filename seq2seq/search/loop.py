"""The loop that every search runs, and the history of its hypotheses."""

# B sentences, W hypotheses of each, R rows of the model, S source length, T target length, N heads,
# V vocabulary

import math
from collections.abc import Callable
from itertools import count
from typing import NamedTuple, Protocol, TypeVar

import torch
from torch import Tensor

from seq2seq.search.config import DecodingConfig, Hypothesis
from seq2seq.search.constraints import Constraints
from seq2seq.search.top_k import stable_max
from seq2seq.special_tokens import BOS, EOS

_Selected = TypeVar("_Selected")


class Selectable(Protocol):
    """Something with an entry for each sentence or row: a memory or a decoder state."""

    def select(self: _Selected, rows: Tensor, /) -> _Selected:
        """Return the entries of the given rows, in the given order."""


class SearchStep(Protocol):
    """The result of one decoder step."""

    @property
    def logits(self) -> Tensor:
        """Return the logits of the next token, (R, V)."""

    @property
    def state(self) -> Selectable:
        """Return the state of R rows after this step."""

    @property
    def attention_weights(self) -> Tensor:
        """Return the attention weights, (R, N, S)."""


class StepDecoder(Protocol):
    """A decoder that predicts the next token of each row."""

    @property
    def step(self) -> Callable[..., SearchStep]:
        """Return the step function: `step(state, previous_ids, memory)` with ids (R,).

        A search passes back the state and the memory that it received, with rows chosen by
        `select`, and uses them for nothing else. R is a multiple of B; the rows of a sentence are
        adjacent.
        """


class SearchedModel(Protocol):
    """A model that encodes sources and predicts their translations token by token."""

    training: bool

    @property
    def decoder(self) -> StepDecoder: ...

    def encode(self, source_ids: Tensor, source_mask: Tensor) -> tuple[Selectable, Selectable]:
        """Return the memory and the first state of B sentences; ids and mask are (B, S)."""


Hypotheses = list[list[Hypothesis]]
"""Hypotheses of each sentence, best first."""


ROOT = -1
"""Parent of the first token of a hypothesis."""
JOINED_STEPS = 64
"""Number of steps whose attention weights are joined into one tensor."""


class Ending(NamedTuple):
    """The last cell of a hypothesis to return, and its score."""

    cell: int
    score: float


class History:
    """All tokens of all hypotheses, each in a numbered cell that points to its parent.

    Sentences can leave the batch and hypotheses can be reordered without copying; paths are traced
    back once, when the search ends.
    """

    def __init__(self) -> None:
        self._links: list[Tensor] = []  # per step (3, B * W): tokens, parent cells, weight rows
        self._log_probabilities: list[Tensor] = []  # per step (B * W,)
        self._weights: list[Tensor] = []  # per step (R, N, S), for the latest steps
        self._joined_weights: list[Tensor] = []  # the same, for earlier steps
        self._num_cells = 0
        self._num_rows = 0

    def append(
        self,
        tokens: Tensor,
        parents: Tensor,
        rows: Tensor,
        log_probabilities: Tensor,
        attention_weights: Tensor,
    ) -> Tensor:
        """Add the cells of one step.

        Args:
            tokens: Token ids, (B, W).
            parents: Cells that they extend, or `ROOT`, (B, W).
            rows: Rows of `attention_weights` that they were computed from, (B, W).
            log_probabilities: Log-probabilities of the hypotheses including these tokens, (B, W).
            attention_weights: (R, N, S).

        Returns:
            Numbers of the new cells, (B, W).
        """
        links = torch.stack((tokens, parents, rows + self._num_rows))
        self._links.append(links.flatten(1))
        self._log_probabilities.append(log_probabilities.flatten())
        # Each step frees large tensors; many small tensors between them would fragment memory (600
        # MB in a sentence of 1,044 tokens), so the small tensors are joined from time to time.
        self._weights.append(attention_weights)
        if len(self._weights) == JOINED_STEPS:
            self._joined_weights.append(torch.cat(self._weights))
            self._weights.clear()
        first = self._num_cells
        self._num_cells += tokens.numel()
        self._num_rows += attention_weights.shape[0]
        return torch.arange(first, self._num_cells, device=tokens.device).view_as(tokens)

    def hypotheses(
        self, endings: list[list[Ending]], source_lengths: list[int]
    ) -> list[list[Hypothesis]]:
        """Trace each ending back to its first token.

        Args:
            endings: Endings of each sentence, best first.
            source_lengths: Length of each source, including EOS.

        Raises:
            ValueError: A probability is NaN, or a sentence has no possible hypothesis.
        """
        links = torch.cat(self._links, dim=1)
        tokens, parents, rows = links.tolist()
        totals = torch.cat(self._log_probabilities)
        by_token = _differences(totals, links[1]).tolist()
        log_probabilities = totals.tolist()
        if any(map(math.isnan, log_probabilities)):
            raise ValueError(
                "the model's probabilities are not numbers (NaN); translate with precision=fp32, "
                "or take an earlier checkpoint"
            )
        for ends in endings:
            if not ends or -math.inf in [log_probabilities[end.cell] for end in ends]:
                raise ValueError(
                    "no translation is possible: a hypothesis has reached a step at which every "
                    "token, EOS included, has probability 0; check that the logits of the model "
                    "are finite"
                )
        paths = [[_trace(end.cell, parents) for end in ends] for ends in endings]
        used = [rows[cell] for of_sentence in paths for path in of_sentence for cell in path]
        weights = torch.cat([*self._joined_weights, *self._weights])
        weights = weights[torch.tensor(used, device=weights.device)].float().cpu()
        lengths = [len(path) for of_sentence in paths for path in of_sentence]
        parts = iter(torch.split(weights, lengths))

        def hypothesis(path: list[int], score: float, source_length: int) -> Hypothesis:
            ids = [tokens[cell] for cell in path]
            finished = ids[-1] == EOS
            part = next(parts)[:, :, :source_length]  # (T, N, S)
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


def _trace(cell: int, parents: list[int]) -> list[int]:
    """Return the cells from the first token to the given one."""
    path = []
    while cell != ROOT:
        path.append(cell)
        cell = parents[cell]
    return path[::-1]


def _differences(totals: Tensor, parents: Tensor) -> Tensor:
    """Return each cell's total minus its parent's total; the error is 1e-7 of the total."""
    # ROOT is -1, so it selects the appended last value: 0, the total without any token.
    padded = torch.nn.functional.pad(totals.double(), (0, 1))
    return padded[:-1] - padded[parents]


class Live(NamedTuple):
    """The hypotheses of each sentence after a step."""

    sentences: Tensor  # (B,) indices in the batch
    limits: Tensor  # (B,) maximum lengths of the hypotheses
    tokens: Tensor  # (B, W) last token of each hypothesis
    cells: Tensor  # (B, W)
    totals: Tensor  # (B, W) log-probabilities
    is_live: Tensor  # (B, W) bool; only live hypotheses are extended
    ranked: tuple[Tensor, ...] = ()  # (B, ...) what a search adds

    def select(self, kept: Tensor) -> "Live":
        """Keep the given sentences."""
        parts = tuple(part[kept] for part in self[:-1])
        return Live._make((*parts, tuple(part[kept] for part in self.ranked)))


class Search:
    """Extends every hypothesis by one token, until all hypotheses of its sentence have ended.

    A hypothesis ends with EOS or at the length limit of its sentence. A sentence leaves the batch
    when its search has ended. This class searches greedily; a subclass chooses other tokens, or
    extends the hypotheses of a sentence together.

    Args:
        config: Has the length limits.
        source_mask: (B, S).
        width: Number of hypotheses of a sentence, W.
    """

    reorders = False
    """Whether the hypotheses of a sentence change their places or their number."""
    ranked: tuple[Tensor, ...] = ()
    """Further tensors of a search, before the first step: (B, ...), a row for each sentence."""

    def __init__(self, config: DecodingConfig, source_mask: Tensor, *, width: int = 1) -> None:
        self._source_lengths: list[int] = source_mask.sum(dim=1).tolist()
        self.limits = list(map(config.longest, self._source_lengths))
        """Largest number of tokens of each translation, including EOS."""
        self._width = width
        self.history = History()

    def choose(
        self, log_probabilities: Tensor, sentences: Tensor, length: int
    ) -> tuple[Tensor, Tensor]:
        """Choose the next token of each row; here the most probable one.

        Args:
            log_probabilities: (R, V).
            sentences: Indices in the batch of the sentences, which have W rows each, (B,).
            length: Number of tokens including the next one.

        Returns:
            The log-probability and the id of each token, (R,).
        """
        return stable_max(log_probabilities)

    def extend(
        self, live: Live, log_probabilities: Tensor, step: SearchStep, length: int
    ) -> tuple[Live, Tensor]:
        """Extend the hypotheses, and append the new tokens to the history.

        Args:
            live: The hypotheses before the step.
            log_probabilities: Log-probabilities of the next tokens, (R, V).
            step: The step of the decoder.
            length: Number of tokens including the new ones.

        Returns:
            The hypotheses after the step, and the row that each of them extends, (B, W).
        """
        chosen, tokens = self.choose(log_probabilities, live.sentences, length)
        tokens = tokens.view_as(live.cells)
        totals = live.totals + chosen.view_as(live.cells)
        rows = torch.arange(tokens.numel(), device=tokens.device).view_as(tokens)
        cells = self.history.append(tokens, live.cells, rows, totals, step.attention_weights)
        is_live = live.is_live  # an ended hypothesis waits for the other hypotheses of its sentence
        return live._replace(
            tokens=tokens,
            cells=torch.where(is_live, cells, live.cells),
            totals=torch.where(is_live, totals, live.totals),
            is_live=is_live & (tokens != EOS),
        ), rows

    def goes_on(self, live: Live) -> Tensor:
        """Return whether the search of a sentence goes on below its length limit, (B,)."""
        return live.is_live.any(dim=1)

    def endings(self, live: Live) -> list[list[Ending]]:
        """Return the hypotheses to return for each sentence."""
        rows = zip(live.cells.tolist(), live.totals.tolist(), strict=True)
        return [list(map(Ending, *of_sentence)) for of_sentence in rows]

    def run(
        self,
        model: SearchedModel,
        source_ids: Tensor,
        source_mask: Tensor,
        constraints: Constraints,
    ) -> Hypotheses:
        """Return the hypotheses of each sentence; `registry.search` describes the arguments."""
        memory, state = model.encode(source_ids, source_mask)
        sentences = torch.arange(len(source_ids), device=source_ids.device)
        zeros = torch.zeros_like(sentences).unsqueeze(1).expand(-1, self._width)  # (B, W)
        live = Live(
            sentences=sentences,
            limits=torch.tensor(self.limits, device=source_ids.device),
            tokens=zeros + BOS,
            cells=zeros + ROOT,
            totals=zeros.float(),
            is_live=zeros == 0,
            ranked=self.ranked,
        )
        if self._width > 1:
            rows = sentences.repeat_interleave(self._width)
            state, constraints = state.select(rows), constraints.select(rows)
        endings: list[list[Ending]] = [[] for _ in self.limits]
        for length in count(1):
            step = model.decoder.step(state, live.tokens.flatten(), memory)
            log_probabilities = constraints.log_probabilities(
                step.logits, live=live.is_live.flatten()
            )
            live, rows = self.extend(live, log_probabilities, step, length)
            state = step.state
            goes_on = self.goes_on(live) & (live.limits > length)
            all_go_on = bool(goes_on.all())
            if not all_go_on:
                # A mask would make the host wait for a count at each use; computing indices waits
                # only once.
                ended = live.select((~goes_on).nonzero().squeeze(1))
                for place, found in zip(ended.sentences.tolist(), self.endings(ended), strict=True):
                    endings[place] = found
                kept = goes_on.nonzero().squeeze(1)
                if not len(kept):
                    break
                live, rows, memory = live.select(kept), rows[kept], memory.select(kept)
            if self.reorders or not all_go_on:
                rows = rows.flatten()
                state, constraints = state.select(rows), constraints.select(rows)
            constraints = constraints.extend(live.tokens.flatten())
        return self.history.hypotheses(endings, self._source_lengths)
