"""The tokenizers of an exported folder, without torch: sub-words by SentencePiece."""

from collections.abc import Sequence
from pathlib import Path

from sentencepiece import SentencePieceProcessor

from seq2seq.text.rules import TextRules


class SubwordTokenizer:
    """Text to token ids and back; see `Tokenizer` in seq2seq.data."""

    def __init__(self, path: Path, rules: TextRules) -> None:
        self.rules = rules
        self._processor = SentencePieceProcessor(model_file=str(path))

    def __len__(self) -> int:
        return len(self._processor)

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        ids: list[list[int]] = self._processor.encode(list(map(self.rules.normalize, lines)))
        return ids

    def decode(self, ids: Sequence[int]) -> str:
        text: str = self._processor.decode(list(ids))
        return text

    def tokens(self, ids: Sequence[int]) -> list[str]:
        tokens: list[str] = self._processor.id_to_piece(list(ids))
        return tokens
