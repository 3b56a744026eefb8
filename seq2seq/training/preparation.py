"""From a configuration to tokenizers, training ids and the sets that are scored."""

from dataclasses import dataclass, replace

from seq2seq.config.schema import TrainConfig
from seq2seq.data import (
    Corpus,
    DataConfig,
    EncodedCorpus,
    TokenizerPair,
    TokenLinks,
    cached_tokenizers,
    encode_corpus,
    load_corpora,
)
from seq2seq.data.cache import check_cache
from seq2seq.evaluation.alignment import GoldLinks
from seq2seq.training.guided_attention import check_guided_attention, read_token_links

UNLIMITED = 1_000_000
"""Tokens: what is scored is never dropped for its length."""


@dataclass(kw_only=True, slots=True)
class EvaluationSet:
    """A corpus to be scored; row i of `encoded` belongs to line i of the others."""

    encoded: EncodedCorpus
    sources: list[str]
    references: list[str]
    gold: list[GoldLinks] | None
    """None where no alignments are known."""


@dataclass(kw_only=True, slots=True)
class PreparedData:
    """All that a run reads."""

    tokenizers: TokenizerPair
    train: EncodedCorpus
    train_links: TokenLinks | None
    """what attention is pulled towards; None leaves it alone"""
    fingerprint: str
    """of the training corpus, and of its links where there are some"""
    valid: EvaluationSet
    test: EvaluationSet


def prepare_data(config: TrainConfig, tokenizers: TokenizerPair | None = None) -> PreparedData:
    """Read or make what the run needs; ids and tokenizers come from the cache where they are there.

    Args:
        config: the run's configuration.
        tokenizers: those of a run that is resumed; None takes or trains the configured ones.
    """
    check_guided_attention(config)
    check_cache(config.data.cache_dir)
    corpora = load_corpora(config.data)
    if tokenizers is None:
        tokenizers = cached_tokenizers(config.tokenizer, corpora.train, config.data.cache_dir)
    train = encode_corpus(corpora.train, tokenizers, config.data)
    fingerprint = corpora.train.fingerprint
    links = None
    guided = config.training.guided_attention
    if guided.weight > 0:
        links = read_token_links(
            guided.alignments,
            corpora.train,
            encoded=train,
            tokenizers=tokenizers,
            config=config.data,
        )
        fingerprint = f"{fingerprint}-{links.digest()}"
    return PreparedData(
        tokenizers=tokenizers,
        train=train,
        train_links=links,
        fingerprint=fingerprint,
        valid=_evaluation_set(corpora.valid, tokenizers, config.data),
        test=_evaluation_set(corpora.test, tokenizers, config.data),
    )


def _evaluation_set(corpus: Corpus, tokenizers: TokenizerPair, config: DataConfig) -> EvaluationSet:
    encoded = encode_corpus(corpus, tokenizers, replace(config, max_length=UNLIMITED))
    pairs = list(corpus)
    links = [pair.links for pair in pairs if pair.links is not None]
    return EvaluationSet(
        encoded=encoded,
        sources=[pair.source for pair in pairs],
        references=[pair.target for pair in pairs],
        gold=[GoldLinks(each, each) for each in links] if len(links) == len(pairs) else None,
    )
