"""Read the alignments that guided attention is pulled towards.

Chen et al. 2016, "Guided alignment training for topic-aware neural machine translation"; the
same is called supervised attention by Mi et al. 2016 and Liu et al. 2016.
"""

import logging
from collections.abc import Iterable, Iterator
from pathlib import Path

from tqdm import tqdm

from seq2seq.config.schema import TrainConfig
from seq2seq.data import (
    Corpus,
    DataConfig,
    EncodedCorpus,
    Pair,
    TokenizerPair,
    TokenLinks,
    link_tokens,
)
from seq2seq.data.cache import digest, new_folder
from seq2seq.data.encoded import encoding_key
from seq2seq.data.text_files import file_sha256
from seq2seq.data.token_links import LinkedTokens
from seq2seq.evaluation.alignment import Links, check_links, read_links
from seq2seq.files.paths import expand_home

logger = logging.getLogger(__name__)

_KEY = "training.guided_attention"
_FORMAT = 1  # of what is cached, which changes with the way from words to tokens


def check_guided_attention(config: TrainConfig) -> None:
    """Check the configured alignments before any data are read; warn if they are not used.

    Raises:
        FileNotFoundError: There is no such file.
    """
    guided = config.training.guided_attention
    if guided.weight == 0:
        if guided.alignments is not None:
            logger.warning("%s.alignments is not read, as %s.weight=0", _KEY, _KEY)
        return
    path = _alignments_path(guided.alignments)
    if path is not None and not path.is_file():
        raise FileNotFoundError(
            f"{_KEY}.alignments={guided.alignments}: no such file; give Pharaoh text, a line for "
            "each line of the training text, or null for the links that the corpus itself has"
        )


def read_token_links(
    alignments: str | None,
    corpus: Corpus,
    *,
    encoded: EncodedCorpus,
    tokenizers: TokenizerPair,
    config: DataConfig,
) -> TokenLinks:
    """Open the links between tokens in the cache; where they are not there, make them of words'.

    Args:
        alignments: path of a file of Pharaoh text, plain or .gz, parallel to the files of the
            corpus: lines whose pair is left out have theirs too. Words are what white space
            separates, counted from 0; a possible link, `1p2`, counts as one. None takes the
            corpus' own gold links.
        corpus: the training text.
        encoded: its ids.
        tokenizers: which made them.
        config: with which they were made.

    Raises:
        ValueError: the corpus has no links of its own, or the file does not fit the text.
    """
    path = _alignments_path(alignments)
    file = None if path is None else file_sha256(path)
    key = digest([_FORMAT, encoding_key(corpus, tokenizers, config), file])
    folder = Path(config.cache_dir) / f"links-{key}"
    if not folder.is_dir():
        pairs = _gold_pairs(corpus) if path is None else _aligned_pairs(corpus, str(path))
        links = TokenLinks.of(
            _linked_rows(pairs, encoded=encoded, tokenizers=tokenizers, name=corpus.name)
        )
        if len(links.targets) == 0:
            raise ValueError(
                f"{_KEY}.alignments={alignments}: there is no link to guide attention by"
            )
        with new_folder(folder) as temporary:
            links.save(temporary)
    links = TokenLinks.open(folder)
    _report(links, name=corpus.name)
    return links


def _alignments_path(alignments: str | None) -> Path | None:
    return None if alignments is None else expand_home(alignments, key=f"{_KEY}.alignments")


def _linked_rows(
    pairs: Iterable[tuple[Pair, Links]],
    *,
    encoded: EncodedCorpus,
    tokenizers: TokenizerPair,
    name: str,
) -> Iterator[LinkedTokens]:
    """Yield the links of each pair of the encoded corpus, which may lack some of the pairs."""
    row = 0
    # disable=None: quiet where stderr is no terminal.
    with tqdm(pairs, desc=f"aligning {name}", unit=" pairs", disable=None) as progress:
        for position, (pair, links) in enumerate(progress):
            if row == len(encoded) or encoded.indices[row] != position:
                continue  # left out for its length; the line is read to be checked
            source_words = tokenizers.source.words(pair.source, encoded.source(row).tolist())
            target_words = tokenizers.target.words(pair.target, encoded.target(row).tolist())
            yield link_tokens(links, source_words, target_words)
            row += 1
    assert row == len(encoded), "the corpus has changed since it was encoded"


def _report(links: TokenLinks, *, name: str) -> None:
    logger.info("%s: %d links between tokens guide attention", name, len(links.targets))
    if links.num_lost:
        logger.warning(
            "%s: %d links guide nothing, as a word of theirs has no token of its own",
            name,
            links.num_lost,
        )


def _gold_pairs(corpus: Corpus) -> Iterator[tuple[Pair, Links]]:
    for pair in corpus:
        if pair.links is None:
            raise ValueError(
                f"{_KEY}.alignments=null takes the links of the corpus, and this one has none; "
                "give a file of Pharaoh text, a line for each line of the training text"
            )
        yield pair, pair.links


def _aligned_pairs(corpus: Corpus, path: str) -> Iterator[tuple[Pair, Links]]:
    """Yield the pairs with the links on their lines of the file."""
    alignments = read_links(path)
    number = 0
    for number, pair in enumerate(corpus.lines(), start=1):
        gold = next(alignments, None)
        if gold is None:
            raise ValueError(
                f"{path}: {number - 1} lines, but the training text goes on; give a line, which "
                "may be empty, for each of its lines"
            )
        if pair is not None:
            lengths = len(pair.source.split()), len(pair.target.split())
            check_links(gold, *lengths, where=f"{path}:{number}")
            yield pair, gold.possible
    if next(alignments, None) is not None:
        raise ValueError(
            f"{path}: more than {number} lines, but the training text has {number}; give one "
            "line for each of its lines"
        )
