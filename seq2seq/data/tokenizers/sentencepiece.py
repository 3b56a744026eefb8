"""Subwords by SentencePiece (Kudo & Richardson 2018): learnt from raw text."""

import logging
import random
import threading
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from io import BytesIO
from itertools import islice, pairwise

import numpy as np
import torch
from sentencepiece import SentencePieceProcessor, SentencePieceTrainer, set_random_generator_seed
from torch import Tensor

from seq2seq.data.config import Normalization, SentencePieceConfig
from seq2seq.data.corpus import Corpus
from seq2seq.data.tokenizers.interface import (
    TokenizerPair,
    TokenizerState,
    register_tokenizer,
    word_indices,
)
from seq2seq.data.tokenizers.ruled import plain_tokenizer
from seq2seq.files.paths import reading
from seq2seq.runtime.numerics import derive_seed
from seq2seq.special_tokens import BOS, EOS, PAD, SPACE_LABEL, SPECIAL_TOKENS, UNK, UNKNOWN_SURFACE
from seq2seq.text.rules import IDENTITY, NO_TEXT, ModelText, split_words

logger = logging.getLogger(__name__)

_SAMPLING = threading.Lock()
_MOST_LINES = 1_000_000
"""Maximum number of lines that a tokenizer is trained on."""
_FULL_WIDTH = "\uff21"


@register_tokenizer(SentencePieceConfig, "bpe", "unigram")
class SentencePieceTokenizer:
    """Tokenizer of subwords; decoding restores the text, apart from normalization by the model.

    Models are trained without normalization unless the configuration asks for it, so decoding
    restores a text of known characters exactly, except U+2581, which becomes a space.
    """

    kind = "sentencepiece"
    rules = IDENTITY

    def __init__(self, model: bytes) -> None:
        """Load a model from the bytes that SentencePiece's trainer wrote."""
        self.model = model
        self._processor = SentencePieceProcessor(model_proto=model)
        # Every normalization except identity turns a full-width letter into an ordinary one.
        self._normalizes = _FULL_WIDTH not in self._processor.normalize(_FULL_WIDTH)

    @property
    def folds_case(self) -> bool:
        normalized: str = self._processor.normalize("A")
        return normalized.endswith("a")

    def __len__(self) -> int:
        return len(self._processor)

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        ids: list[list[int]] = self._processor.encode(list(lines))
        return ids

    def sample(self, lines: Sequence[str], *, seed: int, alpha: float) -> list[list[int]]:
        # The seed is global to the process. With one thread, each call restarts the seed's sequence
        # of random numbers.
        with _SAMPLING:
            set_random_generator_seed(seed)
            ids: list[list[int]] = self._processor.encode(
                list(lines), enable_sampling=True, alpha=alpha, nbest_size=-1, num_threads=1
            )
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        text: str = self._processor.decode([int(i) for i in ids])
        return text

    def tokens(self, ids: Sequence[int]) -> list[str]:
        tokens: list[str] = self._processor.id_to_piece([int(i) for i in ids])
        return tokens

    def words(self, text: str, ids: Sequence[int], source: ModelText = NO_TEXT) -> list[int]:
        surfaces = [
            None if i == UNK else token.replace(SPACE_LABEL, " ")
            for i, token in zip(ids, self.tokens(ids), strict=True)
        ]
        if not self._normalizes:
            return word_indices(text, surfaces)
        words = [self._normalized(word) for word in split_words(text)]
        kept = [index for index, word in enumerate(words) if word] or [0]
        indices = word_indices(" ".join(filter(None, words)), surfaces)
        return [kept[index] for index in indices]

    def _normalized(self, word: str) -> str:
        """Return the normalized characters of a word, without spaces that normalization may add."""
        text: str = self._processor.normalize(word)
        return "".join(text.replace(SPACE_LABEL, " ").split())

    def state(self) -> TokenizerState:
        model = torch.frombuffer(bytearray(self.model), dtype=torch.uint8)
        return {"kind": self.kind, "model": model}

    @classmethod
    def restore(cls, state: TokenizerState) -> "SentencePieceTokenizer":
        model = state["model"]
        assert isinstance(model, Tensor)
        return cls(np.asarray(model).tobytes())

    @staticmethod
    def train(config: SentencePieceConfig, corpus: Corpus, symbols: Sequence[str]) -> TokenizerPair:
        train = partial(_train_side, config, symbols=symbols)
        if config.joint:
            lines = (line for pair in corpus for line in (pair.source, pair.target))
            tokenizer = train(lines, label=f"{corpus.name} (both sides)")
            targets = (pair.target for pair in corpus)
            return _restrict_target(tokenizer, targets, is_bpe=config.name == "bpe")
        return TokenizerPair(
            train((pair.source for pair in corpus), label=f"{corpus.name} (source)"),
            train((pair.target for pair in corpus), label=f"{corpus.name} (target)"),
        )


def has_subwords(tokenizers: TokenizerPair) -> bool:
    """Return whether both tokenizers are models of SentencePiece, as an exported model needs."""
    plain = map(plain_tokenizer, tokenizers)
    return all(isinstance(each, SentencePieceTokenizer) for each in plain)


def _restrict_target(
    tokenizer: SentencePieceTokenizer, targets: Iterable[str], *, is_bpe: bool
) -> TokenizerPair:
    """Give the first ids to the tokens that targets need, and restrict the target tokenizer to
    these tokens.

    Both tokenizers split these targets as the given tokenizer does, because they keep all tokens of
    these segmentations, and the tokens that BPE merges into them. All characters are also kept, so
    the target tokenizer covers every text that the source tokenizer covers.
    """
    labels = tokenizer.tokens(range(len(tokenizer)))
    ids = {label: i for i, label in enumerate(labels) if i >= len(SPECIAL_TOKENS)}
    remaining = iter(targets)
    used: set[int] = set()
    while lines := list(islice(remaining, 10_000)):
        used.update(*tokenizer.encode(lines))
    needed = {*range(len(SPECIAL_TOKENS)), *(i for label, i in ids.items() if len(label) == 1)}
    for label in ids.keys() & {labels[i] for i in used}:
        needed |= {ids[part] for part in _parts(label, ids, is_bpe=is_bpe) if part in ids}
    order = sorted(range(len(labels)), key=lambda i: i not in needed)  # the sort is stable
    source, target = (_with_pieces(tokenizer.model, ids) for ids in (order, order[: len(needed)]))
    return TokenizerPair(source, target)


def _with_pieces(model: bytes, ids: Sequence[int]) -> SentencePieceTokenizer:
    """Return the tokenizer of a model that has only these pieces, in this order."""
    # Only training needs this import, which needs the package protobuf.
    from sentencepiece.sentencepiece_model_pb2 import ModelProto

    whole, part = ModelProto.FromString(model), ModelProto.FromString(model)
    del part.pieces[:]
    part.pieces.extend(whole.pieces[i] for i in ids)
    return SentencePieceTokenizer(part.SerializeToString())


def _parts(label: str, ids: Mapping[str, int], *, is_bpe: bool) -> set[str]:
    """Return a token, its characters, and with BPE the tokens that it is merged from."""
    parts, found = list(label), {label, *label}
    while is_bpe and len(parts) > 1:
        # The earliest merge, which has the lowest id, comes first; among equal merges, the
        # leftmost.
        pairs = list(map("".join, pairwise(parts)))
        place = min(range(len(pairs)), key=lambda i: ids.get(pairs[i], len(ids) + len(label)))
        parts[place : place + 2] = [pairs[place]]
        found.add(pairs[place])
    return found


def _train_side(
    config: SentencePieceConfig, lines: Iterable[str], *, label: str, symbols: Sequence[str]
) -> SentencePieceTokenizer:
    sample = _sample(lines, label=label)
    size = config.vocabulary_size
    has_rules = config.normalization in (Normalization.nmt_nfkc, Normalization.nmt_nfkc_cf)
    model = BytesIO()
    with reading(f"{label}: tokenizer.vocabulary_size={size}"):
        SentencePieceTrainer.train(
            sentence_iterator=iter(sample),
            model_writer=model,
            model_type=config.name,
            vocab_size=size,
            hard_vocab_limit=False,
            character_coverage=1.0,
            # SentencePiece's rules with "nmt" would make the joiner U+200C, which Persian needs, a
            # space; what else they do, `seq2seq.text.rules.normalize` has done.
            normalization_rule_name=(
                config.normalization.value.removeprefix("nmt_") if has_rules else "identity"
            ),
            user_defined_symbols=list(symbols),
            # Decoding restores the text with all its spaces.
            remove_extra_whitespaces=False,
            max_sentence_length=1 << 30,  # the maximum, in bytes
            pad_id=PAD,
            unk_id=UNK,
            bos_id=BOS,
            eos_id=EOS,
            unk_surface=UNKNOWN_SURFACE,
            num_threads=4,  # another number would change the rounding of unigram training
            minloglevel=2,  # only errors
        )
    tokenizer = SentencePieceTokenizer(model.getvalue())
    if len(tokenizer) < size:
        logger.info(
            "%s: the vocabulary has %d tokens, fewer than tokenizer.vocabulary_size allows",
            label,
            len(tokenizer),
        )
    return tokenizer


def _sample(lines: Iterable[str], *, label: str) -> list[str]:
    """Return all lines, or a uniform random sample of `_MOST_LINES`."""
    # Reservoir sampling: after n lines, each is in the sample with probability _MOST_LINES / n.
    generator = random.Random(derive_seed(1, "tokenizer sample"))
    sample: list[str] = []
    num_lines = 0
    for num_lines, line in enumerate(lines, start=1):
        if num_lines <= _MOST_LINES:
            sample.append(line)
            continue
        place = int(generator.random() * num_lines)
        if place < _MOST_LINES:
            sample[place] = line
    if num_lines > _MOST_LINES:
        logger.info("%s: the tokenizer is trained on %d of %d lines", label, _MOST_LINES, num_lines)
    return sample
