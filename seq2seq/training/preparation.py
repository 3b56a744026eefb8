"""Prepare the data of a run: tokenizers, training ids and the corpora to score."""

import logging
from dataclasses import dataclass, replace
from functools import partial

from seq2seq.config.schema import TrainConfig
from seq2seq.data import (
    Corpus,
    DataConfig,
    EncodedCorpus,
    Tokenizer,
    TokenizerPair,
    TokenLinks,
    TrainingCorpus,
    cached_tokenizers,
    encode_corpus,
    load_corpora,
    training_corpus,
)
from seq2seq.data.cache import check_cache
from seq2seq.data.files.mixing import Mixture, training_mixture
from seq2seq.data.files.tags import check_tags, check_user_symbols, with_tags
from seq2seq.data.overlap import count_shared_pairs
from seq2seq.evaluation.alignment import GoldLinks
from seq2seq.evaluation.bleu_tokenize import (
    DEFAULT_RULE,
    ScoringRule,
    check_bleu_is_available,
    choose_bleu_tokenize,
    describe_missing_spaces,
)
from seq2seq.training.guided_attention import check_guided_attention, read_token_links

logger = logging.getLogger(__name__)

_BLEU_KEY = "training.validation.bleu_tokenize"
_MANY_SHARED = 0.01  # share of pairs of a set to score above which a warning says so
UNLIMITED = 2**31 - 1
"""Tokens; validation and test sentences of any length are scored."""


@dataclass(kw_only=True, slots=True)
class EvaluationSet:
    """A corpus to score; row i of `encoded` belongs to line i of the other lists."""

    encoded: EncodedCorpus
    sources: list[str]
    references: list[str]
    gold: list[GoldLinks] | None
    """None if a sentence has no gold alignment."""
    scoring_rule: ScoringRule = DEFAULT_RULE
    """Tokenizer and case of BLEU on the references."""


@dataclass(kw_only=True, slots=True)
class PreparedData:
    """The data of a run."""

    tokenizers: TokenizerPair
    train: TrainingCorpus
    train_links: TokenLinks | None
    """Links for guided attention; None without it."""
    mixture: Mixture | None
    """Rows of an epoch, if training takes some corpora more often than others."""
    fingerprint: str
    """Hash of the training corpus and of its links."""
    valid: EvaluationSet
    valid_fingerprint: str
    """Hash of the validation corpus that chooses the best checkpoint."""
    test: EvaluationSet | None
    """None if the run has no test set."""
    other_valid: dict[str, EvaluationSet]
    """Further validation sets by name, which are scored but choose nothing."""


def prepare_data(config: TrainConfig, tokenizers: TokenizerPair | None = None) -> PreparedData:
    """Prepare the data of a run; token ids and tokenizers are read from the cache if possible.

    Args:
        config: The configuration.
        tokenizers: Tokenizers of a resumed run; None trains those of the configuration.

    Raises:
        ValueError: The data cannot be used with this configuration.
        OSError: A file cannot be read or written.
    """
    check_guided_attention(config)
    check_bleu_is_available(_bleu_tokenize(config), key=_BLEU_KEY)
    check_cache(config.data.cache_dir)
    corpora = load_corpora(config.data)
    if tokenizers is None:
        symbols = with_tags(config.tokenizer, config.data)
        tokenizers = cached_tokenizers(symbols, corpora.train, config.data.cache_dir)
    else:
        check_user_symbols(config.tokenizer, tokenizers)
    check_tags(config.data, tokenizers)
    encoded = encode_corpus(corpora.train, tokenizers, config.data)
    fingerprint = corpora.train.fingerprint
    links = _training_links(config, corpora.train, encoded, tokenizers)
    if links is not None:
        fingerprint = f"{fingerprint}-{links.digest()}"
    rule = _scoring_rule(config, tokenizers.target)
    to_score = partial(_evaluation_set, encoded, tokenizers, config.data, rule)
    valid = to_score(corpora.valid)
    test = None if corpora.test is None else to_score(corpora.test)
    if warning := describe_missing_spaces(valid.references, rule.bleu_tokenize, key=_BLEU_KEY):
        logger.warning("%s", warning)
    return PreparedData(
        tokenizers=tokenizers,
        train=training_corpus(
            encoded,
            corpora.train,
            tokenizers,
            config=config.tokenizer,
            data=config.data,
            seed=config.seed,
        ),
        train_links=links,
        mixture=training_mixture(config.data, encoded),
        fingerprint=fingerprint,
        valid=valid,
        valid_fingerprint=corpora.valid.fingerprint,
        test=test,
        other_valid={name: to_score(corpus) for name, corpus in corpora.other_valid.items()},
    )


def _bleu_tokenize(config: TrainConfig) -> str:
    chosen = config.training.validation.bleu_tokenize
    return choose_bleu_tokenize(chosen, language=config.data.target)


def _scoring_rule(config: TrainConfig, tokenizer: Tokenizer) -> ScoringRule:
    """Return the rule of scores, which ignore case if the tokenizer does, unless it is set."""
    lowercase = config.training.validation.lowercase
    return ScoringRule(
        _bleu_tokenize(config), tokenizer.folds_case if lowercase is None else lowercase
    )


def _training_links(
    config: TrainConfig, corpus: Corpus, encoded: EncodedCorpus, tokenizers: TokenizerPair
) -> TokenLinks | None:
    """Return the links of guided attention, or None if it is off."""
    guided = config.training.guided_attention
    if guided.weight == 0:
        return None
    return read_token_links(
        guided.alignments, corpus, encoded=encoded, tokenizers=tokenizers, config=config.data
    )


def _evaluation_set(
    train: EncodedCorpus,
    tokenizers: TokenizerPair,
    config: DataConfig,
    rule: ScoringRule,
    corpus: Corpus,
) -> EvaluationSet:
    encoded = encode_corpus(corpus, tokenizers, replace(config, max_length=UNLIMITED))
    _report_shared(corpus.name, encoded, train)
    pairs = list(corpus)
    links = [pair.links for pair in pairs if pair.links is not None]
    return EvaluationSet(
        encoded=encoded,
        sources=[pair.source for pair in pairs],
        references=[pair.target for pair in pairs],
        gold=[GoldLinks(each, each) for each in links] if len(links) == len(pairs) else None,
        scoring_rule=rule,
    )


def _report_shared(name: str, encoded: EncodedCorpus, train: EncodedCorpus) -> None:
    """Log how many pairs to score are in the training text too."""
    if num_shared := count_shared_pairs(encoded, train):
        share = num_shared / len(encoded)
        logger.log(
            logging.WARNING if share > _MANY_SHARED else logging.INFO,
            "%s: pairs that are also in the training text: %d of %d; scores on them say nothing "
            "about new text",
            name,
            num_shared,
            len(encoded),
        )
