"""Constraints: which tokens a hypothesis may not go on with, in any search."""

# B sentences, R rows (hypotheses), L tokens so far with BOS, P prefix, F sequences, n their length,
# V vocabulary

import copy
import logging
from collections import defaultdict
from collections.abc import Sequence

import torch
from torch import Tensor

from seq2seq.search.config import DecodingConfig
from seq2seq.special_tokens import BOS, EOS, PAD

logger = logging.getLogger(__name__)


class Constraints:
    """Nothing is constrained, so nothing is run."""

    def apply(self, log_probabilities: Tensor, *, live: Tensor) -> Tensor:
        """Set those of the tokens that may not come next to -inf, in place.

        Args:
            log_probabilities: (R, V), with PAD and BOS at -inf already.
            live: (R,) bool, False = finished or impossible, only there to fill its place.
        """
        return log_probabilities

    def select(self, rows: Tensor) -> "Constraints":
        """Follow the hypotheses of the given rows (R,), as states do."""
        return self

    def extend(self, tokens: Tensor) -> "Constraints":
        """Follow the hypotheses to their next tokens (R,)."""
        return self

    def report(self) -> None:
        """Warn of what had to end against its constraints, of all that followed this."""


def build_constraints(
    config: DecodingConfig,
    source_mask: Tensor,
    *,
    prefixes: Sequence[Sequence[int]],
    banned: Sequence[Sequence[int]],
) -> Constraints:
    """Join what the config and the caller ask for, one row a sentence.

    Args:
        config: a search's config.
        source_mask: (B, S).
        prefixes: for each sentence the tokens that a translation begins with; none: all free.
        banned: sequences of tokens that no translation holds.

    Raises:
        ValueError: a prefix or a banned sequence makes no sense.
    """
    lengths = source_mask.sum(dim=1).tolist()
    shortest = [config.shortest(length) for length in lengths]
    _check_prefixes(prefixes, [config.longest(length) for length in lengths])
    if [] in [list(sequence) for sequence in banned]:
        raise ValueError("a banned sequence is empty, which every translation holds; remove it")
    # An end is a token itself, so a least length of 1 asks for nothing.
    if max(shortest) <= 1 and not any(prefixes) and not banned and not config.no_repeat_ngram:
        return Constraints()
    device = source_mask.device
    longest_prefix = max(map(len, prefixes), default=0)
    padded = [[*prefix, *[PAD] * (longest_prefix - len(prefix))] for prefix in prefixes]
    return _ActiveConstraints(
        produced=torch.full((len(lengths), 1), BOS, device=device),
        prefixes=torch.tensor(padded or [[]] * len(lengths), dtype=torch.long, device=device),
        shortest=torch.tensor(shortest, device=device),
        banned=_by_length(banned, device),
        no_repeat_ngram=config.no_repeat_ngram,
    )


class _ActiveConstraints(Constraints):
    """What each row has produced and must produce.

    A forced token is exempt from all else. A hypothesis that is left without any token may end,
    which is the one way to be too short; a warning counts those.
    """

    def __init__(
        self,
        *,
        produced: Tensor,
        prefixes: Tensor,
        shortest: Tensor,
        banned: tuple[Tensor, ...],
        no_repeat_ngram: int,
    ) -> None:
        self._produced = produced  # (R, L)
        self._prefixes = prefixes  # (R, P); PAD: free
        self._shortest = shortest  # (R,)
        self._banned = banned  # of each length (F, n)
        self._no_repeat_ngram = no_repeat_ngram
        self._stuck_counts: list[int] = []  # of each step that leaves some without a token

    def apply(self, log_probabilities: Tensor, *, live: Tensor) -> Tensor:
        length = self._produced.shape[1]  # with the token to come, for BOS does not count
        ends = log_probabilities[:, EOS].clone()
        forced = self._forced_tokens()  # (R, 1)
        forced_values = log_probabilities.gather(1, forced)
        self._block(log_probabilities)
        log_probabilities[:, EOS].masked_fill_(self._shortest > length, -torch.inf)
        # Where nothing is forced this writes the -inf of PAD onto itself.
        log_probabilities.masked_fill_(forced != PAD, -torch.inf)
        log_probabilities.scatter_(1, forced, forced_values)
        stuck = log_probabilities.amax(dim=1) == -torch.inf
        if stuck.any():
            self._stuck_counts.append(int((stuck & live).sum()))
            log_probabilities[stuck, EOS] = ends[stuck]
        return log_probabilities

    def select(self, rows: Tensor) -> Constraints:
        return self._replace(self._produced[rows], self._prefixes[rows], self._shortest[rows])

    def extend(self, tokens: Tensor) -> Constraints:
        produced = torch.cat((self._produced, tokens.unsqueeze(1)), dim=1)
        return self._replace(produced, self._prefixes, self._shortest)

    def report(self) -> None:
        if num_stuck := sum(self._stuck_counts):
            logger.warning(
                "%d hypotheses had no token left that their constraints allow, and ended; set a "
                "larger decoding.no_repeat_ngram, or ban fewer sequences",
                num_stuck,
            )

    def _replace(self, produced: Tensor, prefixes: Tensor, shortest: Tensor) -> Constraints:
        # The rest is one for all, the counts too.
        followed = copy.copy(self)
        followed._produced, followed._prefixes, followed._shortest = produced, prefixes, shortest
        return followed

    def _forced_tokens(self) -> Tensor:
        """Return the token that must come next, or PAD, (R, 1)."""
        place = self._produced.shape[1] - 1
        if place < self._prefixes.shape[1]:
            return self._prefixes[:, place : place + 1]
        return torch.full_like(self._produced[:, :1], PAD)

    def _block(self, log_probabilities: Tensor) -> None:
        """Block each token that would complete a banned sequence or repeat an n-gram."""
        size, length = self._no_repeat_ngram, self._produced.shape[1]
        for sequences in self._banned:
            _block_last(log_probabilities, self._produced, sequences.unsqueeze(0))
        if 0 < size <= length:
            _block_last(log_probabilities, self._produced, self._produced.unfold(1, size, 1))


def _block_last(log_probabilities: Tensor, produced: Tensor, sequences: Tensor) -> None:
    """Block the last token of each sequence whose others are what was produced last.

    Args:
        log_probabilities: (R, V).
        produced: (R, L).
        sequences: (R or 1, F, n).
    """
    num_others = sequences.shape[-1] - 1
    length = produced.shape[1]
    if num_others > length:
        return
    latest = produced[:, length - num_others :].unsqueeze(1)  # (R, 1, n - 1)
    begun = (sequences[..., :-1] == latest).all(dim=-1)  # (R, F)
    # BOS, which is blocked anyway, stands for the sequences that are not begun.
    blocked = torch.where(begun, sequences[..., -1], BOS)
    log_probabilities.scatter_(1, blocked, -torch.inf)


def _by_length(sequences: Sequence[Sequence[int]], device: torch.device) -> tuple[Tensor, ...]:
    groups: dict[int, list[list[int]]] = defaultdict(list)
    for sequence in sequences:
        groups[len(sequence)].append(list(sequence))
    return tuple(torch.tensor(group, device=device) for group in groups.values())


def _check_prefixes(prefixes: Sequence[Sequence[int]], limits: list[int]) -> None:
    if prefixes and len(prefixes) != len(limits):
        raise ValueError(
            f"{len(prefixes)} prefixes for {len(limits)} sentences; give one a sentence, an "
            "empty one where nothing is forced"
        )
    for row, (prefix, limit) in enumerate(zip(prefixes, limits, strict=False)):
        if {PAD, BOS} & set(prefix) or EOS in prefix[:-1]:
            raise ValueError(
                f"prefix {row} holds padding, a start, or an end before its last token; give the "
                "ids of tokens alone"
            )
        if len(prefix) > limit:
            raise ValueError(
                f"prefix {row} has {len(prefix)} tokens, but the translation at most {limit}; "
                "raise decoding.max_length_offset or shorten the prefix"
            )
