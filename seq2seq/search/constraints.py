"""Constraints on the next token of a hypothesis, for every search."""

# B sentences, R rows (hypotheses), L tokens so far with BOS, F sequences, n their length,
# K symbols, V vocabulary

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from seq2seq.search.config import DecodingConfig
from seq2seq.special_tokens import BOS, EOS, NEVER_PREDICTED

logger = logging.getLogger(__name__)


class Constraints:
    """The constraints of every search, and the interface of further constraints."""

    def log_probabilities(self, logits: Tensor, *, totals: Tensor) -> Tensor:
        """Return log-probabilities (R, V), -inf for tokens that are not allowed.

        Probabilities are not renormalized: a hypothesis keeps the probability that the model gives
        it. PAD and BOS are never allowed.

        Args:
            logits: (R, V).
            totals: Log-probability of each row, (R,); -inf: it is not extended.
        """
        log_probabilities = torch.log_softmax(logits.float(), dim=-1)
        log_probabilities[:, NEVER_PREDICTED].fill_(-torch.inf)
        return self.apply(log_probabilities, totals=totals)

    def apply(self, log_probabilities: Tensor, *, totals: Tensor) -> Tensor:
        """Set the log-probabilities of tokens that are not allowed to -inf, in place.

        Args:
            log_probabilities: (R, V), in which PAD and BOS are -inf already.
            totals: Log-probability of each row, (R,); -inf: it is not extended.
        """
        return log_probabilities

    def select(self, rows: Tensor) -> "Constraints":
        """Return the constraints of the given rows (R,), in the given order."""
        return self

    def extend(self, tokens: Tensor) -> "Constraints":
        """Return the constraints after the next token of each row (R,)."""
        return self

    def report(self) -> None:
        """Log how many hypotheses ended because no token was allowed."""


def build_constraints(
    config: DecodingConfig,
    source_mask: Tensor,
    *,
    symbols: Sequence[int] = (),
    num_symbols: Sequence[int] = (),
) -> Constraints:
    """Return the constraints of a config and a call of `search`, one row for each sentence.

    Args:
        config: Configuration of a search.
        source_mask: (B, S).
        symbols: As in `search`.
        num_symbols: As in `search`.
    """
    # EOS counts as a token, so a minimum length of 1 constrains nothing.
    has_others = config.min_length > 1 or config.no_repeat_ngram > 0
    if not (has_others or symbols):
        return Constraints()
    num_sentences, device = len(source_mask), source_mask.device
    symbol_ids = torch.tensor(symbols, dtype=torch.long, device=device)
    numbers = torch.tensor(num_symbols or [0] * num_sentences, device=device).unsqueeze(1)
    return _ActiveConstraints(
        produced=torch.empty(num_sentences, 0, dtype=torch.long, device=device),
        min_length=config.min_length,
        no_repeat_ngram=config.no_repeat_ngram,
        symbols=symbol_ids,
        missing=torch.arange(len(symbols), device=device) < numbers,
        has_missing=any(num_symbols),
        only_symbols=not has_others,
    )


@dataclass(kw_only=True, slots=True)
class _ActiveConstraints(Constraints):
    """The tokens of each row so far and the constraints on the next one.

    If no token is allowed, the hypothesis may end, even if it is too short; `report` counts such
    hypotheses.
    """

    produced: Tensor  # (R, L)
    min_length: int
    no_repeat_ngram: int
    symbols: Tensor  # (K,) ids
    missing: Tensor  # (R, K) bool, True = the row still lacks the symbol
    has_missing: bool
    """Whether a source has symbols."""
    only_symbols: bool
    """Whether the symbols are the only constraint; this constraint always allows a token."""
    stuck_counts: list[int] = field(default_factory=list)
    """Number of live rows without an allowed token in each step; all copies share the list."""

    @property
    def is_constant(self) -> bool:
        """Whether only symbols are blocked, and the same ones for each row and step."""
        return self.only_symbols and not self.has_missing

    def apply(self, log_probabilities: Tensor, *, totals: Tensor) -> Tensor:
        if self.only_symbols:
            self._place_symbols(log_probabilities)
            return log_probabilities
        length = self.produced.shape[1]  # including the next token, excluding BOS
        eos_values = log_probabilities[:, EOS].clone()
        self._place_symbols(log_probabilities)
        self._block(log_probabilities)
        if length < self.min_length:
            log_probabilities[:, EOS] = -torch.inf
        stuck = log_probabilities.amax(dim=1) == -torch.inf
        if stuck.any():
            self.stuck_counts.append(int((stuck & (totals > -torch.inf)).sum()))
            log_probabilities[stuck, EOS] = eos_values[stuck]
        return log_probabilities

    def select(self, rows: Tensor) -> Constraints:
        if self.is_constant:
            return self
        return replace(
            self,
            produced=self.produced[rows],
            missing=self.missing[rows],
        )

    def extend(self, tokens: Tensor) -> Constraints:
        if self.is_constant:
            return self
        tokens = tokens.unsqueeze(1)
        produced = torch.cat((self.produced, tokens), dim=1)
        return replace(self, produced=produced, missing=self.missing & (tokens != self.symbols))

    def report(self) -> None:
        if num_stuck := sum(self.stuck_counts):
            logger.warning(
                "hypotheses that ended because no token was allowed: %d; set a larger "
                "decoding.no_repeat_ngram",
                num_stuck,
            )

    def _place_symbols(self, log_probabilities: Tensor) -> None:
        if self.has_missing:
            rows = self.missing.any(dim=1).nonzero().squeeze(1)
            slots = symbol_slots(self.symbols, log_probabilities.shape[1])
            placed = place_symbols(log_probabilities[rows], self.missing[rows], slots)
        log_probabilities.index_fill_(1, self.symbols, -torch.inf)
        if self.has_missing:
            log_probabilities[rows] = placed

    def _block(self, log_probabilities: Tensor) -> None:
        """Block every token that would repeat an n-gram."""
        size, length = self.no_repeat_ngram, self.produced.shape[1]
        if 0 < size <= length:
            _block_last(log_probabilities, self.produced, self.produced.unfold(1, size, 1))


def symbol_slots(symbols: Tensor, vocabulary_size: int) -> Tensor:
    """Return the place of each token (V,) among the symbols (K,); K: the token is no symbol."""
    slots = torch.full((vocabulary_size,), len(symbols), device=symbols.device)
    slots[symbols] = torch.arange(len(symbols), device=symbols.device)
    return slots


def place_symbols(log_probabilities: Tensor, missing: Tensor, slots: Tensor) -> Tensor:
    """Block symbols that are not missing, and EOS as long as a symbol is missing.

    Where the model would end although symbols are missing, one of them must follow. So a beam
    prefers hypotheses with the symbols where the model expects them, and no symbol gets lost.

    Args:
        log_probabilities: (R, V).
        missing: (R, K) bool, True = the row still lacks the symbol.
        slots: The result of `symbol_slots`, (V,).
    """
    always = torch.ones_like(missing[:, :1])
    allowed = torch.cat((missing, always), dim=1).index_select(1, slots)  # (R, V)
    values = torch.where(allowed, log_probabilities, -torch.inf)
    incomplete = missing.any(dim=1, keepdim=True)
    ends = incomplete & (values.argmax(dim=1, keepdim=True) == EOS)
    is_end = torch.arange(len(slots), device=slots.device) == EOS
    blocked = (ends & (slots == missing.shape[1])) | (incomplete & is_end)
    return torch.where(blocked, -torch.inf, values)


def _block_last(log_probabilities: Tensor, produced: Tensor, sequences: Tensor) -> None:
    """Block the last token of a sequence if the tokens before it were produced last.

    Args:
        log_probabilities: (R, V).
        produced: (R, L).
        sequences: (R, F, n).
    """
    num_others = sequences.shape[-1] - 1
    length = produced.shape[1]
    if num_others > length:
        return
    latest = produced[:, length - num_others :].unsqueeze(1)  # (R, 1, n - 1)
    begun = (sequences[..., :-1] == latest).all(dim=-1)  # (R, F)
    # For all other sequences BOS is blocked, which is never allowed anyway.
    blocked = torch.where(begun, sequences[..., -1], BOS)
    log_probabilities.scatter_(1, blocked, -torch.inf)
