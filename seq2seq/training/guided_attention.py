"""Read the word links that guided attention is trained to follow.

Chen et al. 2016, "Guided alignment training for topic-aware neural machine translation"; the
same is called supervised attention by Mi et al. 2016 and Liu et al. 2016.
"""

import logging
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

from tqdm import tqdm

from seq2seq.config.schema import TrainConfig
from seq2seq.data.batching import (
    EncodedCorpus,
    Numbers,
    TokenLinks,
    link_tokens,
    samples_segmentations,
)
from seq2seq.data.cache import (
    ArrayWriter,
    cache_path,
    cached,
    digest,
    encoding_key,
    read_arrays,
)
from seq2seq.data.corpus import Corpus, Pair
from seq2seq.data.tokenizers.interface import TokenizerPair

logger = logging.getLogger(__name__)

_KEY = "training.guided_attention.weight"
_WAY_OUT = "; give word links in a third file, 'data.train=[my/a.de,my/a.en,my/a.align]'"
_FORMAT = 2
"""Version of the cached links; it changes when the mapping from words to tokens changes."""


def check_guided_attention(config: TrainConfig) -> None:
    """Raise ValueError if the tokens of a pair change in each epoch, because its links do not."""
    weight = config.training.guided_attention.weight
    if weight > 0 and samples_segmentations(config.tokenizer):
        raise ValueError(
            f"{_KEY}={weight} needs the same tokens in every epoch; set it to 0, or "
            "tokenizer.sampling_alpha to 0"
        )


def read_token_links(
    config: TrainConfig, corpus: Corpus, encoded: EncodedCorpus, tokenizers: TokenizerPair
) -> TokenLinks:
    """Return the links between the tokens of a corpus, from the cache if possible.

    They come from the links between words of the corpus; possible links count like sure links.

    Args:
        config: The configuration that produced the token ids.
        corpus: The training text.
        encoded: The token ids of the corpus.
        tokenizers: The tokenizers that produced the token ids.

    Raises:
        ValueError: The corpus has no links.
    """
    name, key = corpus.name, digest([_FORMAT, encoding_key(corpus, tokenizers, config.data)])

    def create(folder: Path) -> None:
        counts = Counter[str]()
        # disable=None shows no bar if stderr is not a terminal.
        with (
            tqdm(corpus, desc=f"aligning {name}", unit=" pairs", disable=None) as pairs,
            ArrayWriter(folder) as writer,
        ):
            for tokens, num_lost in _linked_rows(pairs, encoded, tokenizers):
                writer.append_rows("links", TokenLinks.of([tokens.ravel().tolist()]))
                counts.update(kept=len(tokens), lost=num_lost)
            if counts["kept"] == 0:
                raise ValueError(f"{_KEY}: the training text has no links{_WAY_OUT}")
            writer.finish(counts)

    folder = cache_path(config.data.cache_dir) / f"links-{key}"
    arrays, counts = cached(folder, create, read_arrays)
    logger.info("%s: guided attention follows %d links between tokens", name, counts["kept"])
    if counts["lost"]:
        logger.warning(
            "%s: links that are not used, because one of their words has no token of its own: %d",
            name,
            counts["lost"],
        )
    return TokenLinks(arrays["links"], arrays["links_offsets"])


def _linked_rows(
    pairs: Iterable[Pair], encoded: EncodedCorpus, tokenizers: TokenizerPair
) -> Iterator[tuple[Numbers, int]]:
    """Yield the links of each pair of the encoded corpus, which lacks skipped pairs."""
    row = 0
    for position, pair in enumerate(pairs):
        if pair.links is None:
            raise ValueError(f"{_KEY}: pair {position + 1} has no links{_WAY_OUT}")
        if row == len(encoded) or encoded.indices[row] != position:
            continue  # the pair was left out because of its length
        (_, spans), _ = tokenizers.source.rules.prepare_pair(pair.source, pair.target)
        sides = zip(tokenizers, (encoded.source_rows, encoded.target_rows), pair[:2], strict=True)
        words = (
            tokenizer.words(text, rows[row].tolist(), spans) for tokenizer, rows, text in sides
        )
        yield link_tokens(pair.links.possible, *words)
        row += 1
    assert row == len(encoded), "the corpus has changed since it was encoded"
