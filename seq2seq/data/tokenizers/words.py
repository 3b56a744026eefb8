"""Words or characters as tokens, from a list of frequent words or characters.

Words are split by torchtext and keep marks where the text has no space, so that the text can be
restored. The packages for words take almost a second to load, so only the functions that need them
import them.
"""

import logging
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import cast

import torch
from torch import Tensor

from seq2seq.data.config import CharactersConfig, Splitter, WordsConfig
from seq2seq.data.corpus import Corpus
from seq2seq.data.tokenizers.interface import (
    Tokenizer,
    TokenizerPair,
    TokenizerState,
    register_tokenizer,
    word_indices,
)
from seq2seq.files.paths import reading
from seq2seq.files.text import open_lines
from seq2seq.special_tokens import SPACE_LABEL, SPECIAL_TOKENS, UNK, UNKNOWN_SURFACE
from seq2seq.text.rules import IDENTITY, NO_TEXT, ModelText, is_symbol

logger = logging.getLogger(__name__)

Split = Callable[[str], list[str]]
"""Function that splits a line into words."""

_JOIN = "\t"
"""Mark of a word without a space on this side; no word contains white space."""
_JOIN_LABEL = "\uffed"
"""Label of a join between two symbols, which cannot have marks."""


class _ListTokenizer:
    """Tokenizer that splits text into units of a list; other units are unknown."""

    rules = IDENTITY

    def __init__(
        self,
        units: Sequence[str],
        *,
        split: Split,
        join: Callable[[list[str]], str],
        plain: Callable[[str], str] = str,
    ) -> None:
        """Create a tokenizer; `plain` returns a unit without marks."""
        self._units = list(units)
        self._split = split
        self._join = join
        # Text of each id; PAD, BOS and EOS have no text.
        self._surfaces = ["", UNKNOWN_SURFACE, "", "", *self._units]
        self._plain = plain
        self._labels = [*SPECIAL_TOKENS, *(plain(unit) or _JOIN_LABEL for unit in units)]
        # A unit that is not listed becomes the most frequent unit that differs only in its marks.
        self._ids: dict[str, int] = {}
        for i, unit in enumerate(units, start=len(SPECIAL_TOKENS)):
            self._ids.setdefault(plain(unit), i)
        self._ids |= {unit: i for i, unit in enumerate(units, start=len(SPECIAL_TOKENS))}

    @property
    def folds_case(self) -> bool:
        return self._split("A") == ["a"]

    def __len__(self) -> int:
        return len(self._surfaces)

    def encode(self, lines: Sequence[str]) -> list[list[int]]:
        return [list(map(self._find, self._split(line))) for line in lines]

    def decode(self, ids: Sequence[int]) -> str:
        return self._join([surface for surface in (self._surfaces[i] for i in ids) if surface])

    def tokens(self, ids: Sequence[int]) -> list[str]:
        return [self._labels[i].replace(" ", SPACE_LABEL) for i in ids]

    def words(self, text: str, ids: Sequence[int], source: ModelText = NO_TEXT) -> list[int]:
        surfaces = self._split(text)
        if list(map(self._find, surfaces)) != list(ids):
            surfaces = [self._surfaces[i] for i in ids]
        # Some tokenizers change the case. casefold() works letter by letter, unlike lower().
        return word_indices(text.casefold(), [surface.casefold() for surface in surfaces])

    def _find(self, unit: str) -> int:
        found = self._ids.get(unit)
        return self._ids.get(self._plain(unit), UNK) if found is None else found


@register_tokenizer(CharactersConfig, "characters")
class CharacterTokenizer(_ListTokenizer):
    """Tokenizer of single characters; characters outside its vocabulary are unknown.

    Example:
        >>> tokenizer = CharacterTokenizer(["a", "b"])
        >>> tokenizer.encode(["abba", "cab"])
        [[4, 5, 5, 4], [1, 4, 5]]
        >>> tokenizer.decode([4, 5, 3])
        'ab'
    """

    kind = "characters"

    def __init__(self, characters: Sequence[str]) -> None:
        super().__init__(characters, split=list, join="".join)

    def state(self) -> TokenizerState:
        return {"kind": self.kind, "characters": list(self._units)}

    @classmethod
    def restore(cls, state: TokenizerState) -> "CharacterTokenizer":
        return cls(cast(list[str], state["characters"]))

    @classmethod
    def train(
        cls, config: CharactersConfig, corpus: Corpus, symbols: Sequence[str]
    ) -> TokenizerPair:
        source, target = (
            _choose(config, counts, name, symbols) for name, counts in _count(corpus, list, list)
        )
        return TokenizerPair(cls(source), cls(target))


@register_tokenizer(WordsConfig, "words")
class WordTokenizer(_ListTokenizer):
    """Tokenizer of words; words outside its vocabulary are unknown.

    Where the text has no space between two words, a tab marks one of them, on that side. So ".",
    "\\t." and "\\t.\\t" are three different tokens, and text may need all of them. The marks
    restore the spaces of known words, whatever the language.

    Example:
        >>> tokenizer = WordTokenizer(["a", "dog", "\\t."], splitter=Splitter.moses, language="en")
        >>> tokenizer.encode(["a big dog."])
        [[4, 1, 5, 6]]
        >>> tokenizer.decode([4, 5, 6])
        'a dog.'
    """

    kind = "words"

    def __init__(self, words: Sequence[str], *, splitter: Splitter, language: str) -> None:
        """Create a tokenizer with a known vocabulary.

        Args:
            words: Vocabulary without special tokens, the most frequent first.
            splitter: Rules that split a line, as `split_function` takes them.
            language: Language code.
        """
        self._splitter = splitter
        self._language = language
        split = marking(split_function(splitter, language=language))
        super().__init__(words, split=split, join=_join_marked, plain=_without_marks)

    def __reduce__(self) -> tuple[object, ...]:
        # The functions of torchtext cannot be pickled.
        return WordTokenizer.restore, (self.state(),)

    def state(self) -> TokenizerState:
        return {
            "kind": self.kind,
            "words": list(self._units),
            "splitter": self._splitter.name,
            "language": self._language,
        }

    @classmethod
    def restore(cls, state: TokenizerState) -> "WordTokenizer":
        return cls(
            cast(list[str], state["words"]),
            splitter=Splitter[str(state["splitter"])],
            language=str(state["language"]),
        )

    @classmethod
    def train(cls, config: WordsConfig, corpus: Corpus, symbols: Sequence[str]) -> TokenizerPair:
        rules = [_choose_rules(config.splitter, language) for language in corpus.languages]
        if config.splitter not in (splitter for splitter, _ in rules):
            raise ValueError(
                f"tokenizer.splitter={config.splitter.name} splits only English, but the languages "
                f"are {' and '.join(corpus.languages)}; choose moses, or set data.source or "
                "data.target to en"
            )
        build_source, build_target = (
            partial(cls, splitter=splitter, language=language) for splitter, language in rules
        )
        splits = (build([])._split for build in (build_source, build_target))
        symbols = [*symbols, _JOIN] if symbols else []
        source, target = (
            _choose(config, _merge_rare_forms(counts, config.min_frequency), name, symbols)
            for name, counts in _count(corpus, *splits)
        )
        return TokenizerPair(build_source(source), build_target(target))


def _choose_rules(splitter: Splitter, language: str) -> tuple[Splitter, str]:
    """Return the splitter of a side and the language whose rules apply: English if moses has none
    for the language."""
    if splitter is Splitter.basic_english and language == "en":
        return splitter, language
    if language in _moses_languages():
        return Splitter.moses, language
    logger.warning(
        "tokenizer=words: moses has no rules for %r and splits words by its English rules; for "
        "other rules set data.source and data.target to language codes such as de and fr, and for "
        "text without spaces choose tokenizer=unigram",
        language,
    )
    return Splitter.moses, "en"


def _count(
    corpus: Corpus, split_source: Split, split_target: Split
) -> list[tuple[str, Counter[str]]]:
    """Return a name and the frequency of every unit, for each side of a corpus."""
    source, target = Counter[str](), Counter[str]()
    for pair in corpus:
        source.update(split_source(pair.source))
        target.update(split_target(pair.target))
    return [(f"{corpus.name} (source)", source), (f"{corpus.name} (target)", target)]


def _merge_rare_forms(counts: Counter[str], min_frequency: int) -> Counter[str]:
    """Add the count of each rare form of a word to its most frequent form, with other marks."""
    merged = Counter[str]()
    forms: dict[str, str] = {}
    for unit, count in counts.most_common():
        most_frequent = forms.setdefault(_without_marks(unit), unit)
        merged[unit if count >= min_frequency else most_frequent] += count
    return merged


def _choose(
    config: CharactersConfig | WordsConfig,
    counts: Counter[str],
    label: str,
    symbols: Sequence[str],
) -> list[str]:
    """Return the symbols and the most frequent units, as many as fit into the vocabulary."""
    limit = config.vocabulary_size - len(SPECIAL_TOKENS)
    frequent = [unit for unit in counts if counts[unit] >= config.min_frequency]
    rest = set(frequent).difference(SPECIAL_TOKENS, symbols)
    order = sorted(rest, key=lambda each: (-counts[each], each))
    chosen = [*symbols, *order][:limit]
    logger.info(
        "%s: in the vocabulary: %d of %d different %s; unknown in the text: %d of %d",
        label,
        len(chosen),
        len(counts),
        config.name,
        counts.total() - sum(counts[unit] for unit in chosen),
        counts.total(),
    )
    return chosen


def marking(split: Split) -> Split:
    """Return a function that splits a line into words with marks where it has no spaces.

    Symbols have no marks; between two of them, the mark is a word.

    Example:
        >>> split = marking(split_function(Splitter.moses, language="en"))
        >>> split("It's 12:30 (noon).")
        ['It', "\\t's", '12', '\\t:\\t', '30', '(\\t', 'noon', '\\t)', '\\t.']
    """
    folds_case = split("A") == ["a"]

    def split_line(line: str) -> list[str]:
        words = split(line)
        text = line.lower() if folds_case else line
        marked: list[str] = []
        for word, is_joined in zip(words, _are_joined(words, text), strict=True):
            if not is_joined:
                marked.append(word)
            elif _rank(marked[-1][-1]) < _rank(word[0]):
                marked[-1] += _JOIN
                marked.append(word)
            elif is_symbol(word[0]):
                marked += _JOIN, word
            else:
                marked.append(_JOIN + word)
        return marked

    return split_line


def _are_joined(words: Sequence[str], text: str) -> Iterator[bool]:
    """Yield for each word whether the text has no space between it and the word before."""
    end, is_found = 0, False
    for previous, word in zip(["", *words], words, strict=False):
        start = text.find(word, end)
        between = text[end:start] if is_found and start >= 0 else " "
        # Some tokenizers drop characters; letters on either side of them stay apart.
        is_letters = _rank(previous[-1:]) > 0 and _rank(word[0]) > 0
        yield not between or not (is_letters or re.search(r"\s", between))
        is_found = start >= 0
        end = start + len(word) if is_found else end


def _rank(character: str) -> int:
    """Rank a character at an end of a word; of two joined words, the lower rank gets the mark."""
    return 2 if is_symbol(character) else int(character.isalnum())


def _without_marks(unit: str) -> str:
    return unit.strip(_JOIN)


def _join_marked(words: list[str]) -> str:
    """Join words that have marks where the text has no spaces."""
    return re.sub(f" ?{_JOIN} ?", "", " ".join(words))


def split_function(splitter: Splitter, *, language: str) -> Split:
    """Return the function that splits a line into words.

    Args:
        splitter: Name of the rules.
        language: Language code that the rules know.

    Example:
        >>> split_function(Splitter.moses, language="de")("Der Hund, z.B. ein Dackel.")
        ['Der', 'Hund', ',', 'z.B.', 'ein', 'Dackel', '.']
    """
    from torchtext.data.utils import get_tokenizer

    if splitter is Splitter.moses:
        # get_tokenizer("moses") has only English rules and writes "&apos;" for an apostrophe.
        split: Split = get_tokenizer(_moses(language))
    else:
        split = get_tokenizer("basic_english", language=language)

    def split_line(line: str) -> list[str]:
        return [word for word in split(line) if not word.isspace()]

    return split_line


def _moses_languages() -> set[str]:
    from sacremoses.corpus import NonbreakingPrefixes

    return set(NonbreakingPrefixes().available_langs.values())


def _moses(language: str) -> Split:
    from sacremoses import MosesTokenizer

    return partial(MosesTokenizer(lang=language).tokenize, escape=False)


def load_vectors(path: str, tokenizer: Tokenizer, size: int) -> Tensor:
    """Read the vectors of a vocabulary from a GloVe or FastText text file.

    Args:
        path: Text file, plain or .gz, with a word and its numbers on each line; FastText's header
            line is skipped.
        tokenizer: Tokenizer whose tokens are looked up, first unchanged, then in lower case.
        size: Size E of the embedding.

    Returns:
        The vector of each of the V words, (V, E); rows of words without a vector are 0.

    Raises:
        OSError: The file cannot be read.
        ReadingError: The file does not contain word vectors of this size, or a vector is not
            finite.
    """
    labels = tokenizer.tokens(range(len(tokenizer)))
    wanted = {*labels, *map(str.lower, labels)}
    vectors: dict[str, list[float]] = {}
    num_values = -1
    with open_lines(path, key="vectors") as lines, reading(path):
        for number, line in enumerate(lines):
            # GloVe has words with spaces, such as ". . .".
            word, *numbers = line.rstrip().rsplit(" ", num_values)
            if number == 0 and len(numbers) == 1:
                continue
            num_values = len(numbers) if num_values < 0 else num_values
            if word in wanted:
                vectors.setdefault(word, list(map(float, numbers)))
        rows = (vectors.get(label, vectors.get(label.lower(), [0.0] * size)) for label in labels)
        matrix = torch.stack([torch.tensor(row) for row in rows])
        if not matrix.isfinite().all():
            raise ValueError("a number is not finite")
    return matrix
