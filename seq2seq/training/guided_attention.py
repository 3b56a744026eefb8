"""Read the alignments that guided attention is trained to follow.

Chen et al. 2016, "Guided alignment training for topic-aware neural machine translation"; the
same is called supervised attention by Mi et al. 2016 and Liu et al. 2016.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from tqdm import tqdm

from seq2seq.checks import counted
from seq2seq.config.schema import TrainConfig
from seq2seq.data.batching import EncodedCorpus, Numbers, TokenLinks, link_tokens
from seq2seq.data.cache import (
    ArrayWriter,
    cache_path,
    cached,
    digest,
    encoding_key,
    read_arrays,
)
from seq2seq.data.corpus import Corpus, Pair
from seq2seq.data.segmentation import samples_segmentations
from seq2seq.data.tokenizers.interface import TokenizerPair
from seq2seq.files.links import Links, check_links, read_links
from seq2seq.files.paths import expand_home, file_sha256

logger = logging.getLogger(__name__)

_KEY = "training.guided_attention"
_FORMAT = 2
"""Version of the cached links; it changes when words are mapped to tokens differently."""


def check_guided_attention(config: TrainConfig) -> None:
    """Check the configured alignments before any data are read.

    Raises:
        FileNotFoundError: There is no such file.
        ValueError: The tokens of a pair change with each epoch, but the alignments do not.
    """
    guided = config.training.guided_attention
    if guided.weight == 0:
        return
    if samples_segmentations(config.tokenizer):
        raise ValueError(
            f"{_KEY}.weight={guided.weight} needs the same tokens in every epoch; set it to 0, or "
            "tokenizer.sampling_alpha to 0"
        )
    path = _alignments_path(guided.alignments)
    if path is not None and not path.is_file():
        raise FileNotFoundError(
            f"{_KEY}.alignments={guided.alignments}: no such file; give Pharaoh text with one "
            "line for each line of the training text, or null to use the links of the corpus"
        )


def read_token_links(
    config: TrainConfig, corpus: Corpus, encoded: EncodedCorpus, tokenizers: TokenizerPair
) -> TokenLinks:
    """Return the links between the tokens of a corpus, from the cache if possible.

    The alignments are a file of Pharaoh text, plain or .gz, with one line for each line of the
    corpus files, also for pairs that are left out. Words are separated by whitespace and counted
    from 0; possible links (`1p2`) count like sure ones. Without a file they are the gold links of
    the corpus.

    Args:
        config: The configuration of the alignments and of the token ids.
        corpus: The training text.
        encoded: The token ids of the corpus.
        tokenizers: The tokenizers of the token ids.

    Raises:
        ValueError: The corpus has no links, or the file does not fit the text.
    """
    alignments, name = config.training.guided_attention.alignments, corpus.name
    path = _alignments_path(alignments)
    file = None if path is None else file_sha256(path)
    key = digest([_FORMAT, encoding_key(corpus, tokenizers, config.data), file])

    def create(folder: Path) -> None:
        pairs = _gold_pairs(corpus) if path is None else _aligned_pairs(corpus, str(path))
        counts = Counter[str]()
        # disable=None shows no bar if stderr is not a terminal.
        with (
            tqdm(pairs, desc=f"aligning {name}", unit=" pairs", disable=None) as progress,
            ArrayWriter(folder) as writer,
        ):
            for tokens, num_lost in _linked_rows(progress, encoded, tokenizers):
                writer.append_rows("links", TokenLinks.of([tokens.ravel().tolist()]))
                counts.update(kept=len(tokens), lost=num_lost)
            if counts["kept"] == 0:
                raise ValueError(f"{_KEY}.alignments={alignments}: the alignments have no links")
            writer.finish(counts)

    folder = cache_path(config.data.cache_dir) / f"links-{key}"
    arrays, counts = cached(folder, create, read_arrays)
    logger.info("%s: links between tokens that guide attention: %d", name, counts["kept"])
    if counts["lost"]:
        logger.warning(
            "%s: links that are not used, because one of their words has no token of its own: %d",
            name,
            counts["lost"],
        )
    return TokenLinks(arrays["links"], arrays["links_lengths"])


def _alignments_path(alignments: str | None) -> Path | None:
    return None if alignments is None else expand_home(alignments, key=f"{_KEY}.alignments")


def _linked_rows(
    pairs: Iterable[tuple[Pair, Links]], encoded: EncodedCorpus, tokenizers: TokenizerPair
) -> Iterator[tuple[Numbers, int]]:
    """Yield the links of each pair of the encoded corpus, which lacks the pairs left out."""
    row = 0
    for position, (pair, links) in enumerate(pairs):
        if row == len(encoded) or encoded.indices[row] != position:
            continue  # left out for its length, after the line was checked
        source_words = tokenizers.source.words(pair.source, encoded.source_rows[row].tolist())
        target_words = tokenizers.target.words(pair.target, encoded.target_rows[row].tolist())
        yield link_tokens(links, source_words, target_words)
        row += 1
    assert row == len(encoded), "the corpus has changed since it was encoded"


def _gold_pairs(corpus: Corpus) -> Iterator[tuple[Pair, Links]]:
    for pair in corpus:
        if pair.links is None:
            raise ValueError(
                f"{_KEY}.alignments=null uses the links of the corpus, but this corpus has none; "
                "give a file of Pharaoh text with one line for each line of the training text"
            )
        yield pair, pair.links.possible


def _aligned_pairs(corpus: Corpus, path: str) -> Iterator[tuple[Pair, Links]]:
    """Yield the pairs with the links on their lines of the file."""
    rule = "give one line, which may be empty, for each of its lines"
    alignments, number = read_links(path), 0
    for number, pair in enumerate(corpus.lines(), start=1):
        gold = next(alignments, None)
        if gold is None:
            lines = counted(number - 1, "line")
            raise ValueError(f"{path}: {lines}, but the training text has more; {rule}")
        if pair is not None:
            lengths = len(pair.source.split()) - pair.num_tags, len(pair.target.split())
            check_links(gold, *lengths, where=f"{path}:{number}")
            yield pair, frozenset((i + pair.num_tags, j) for i, j in gold.possible)
    if next(alignments, None) is not None:
        raise ValueError(f"{path}: more lines than the {number} of the training text; {rule}")
