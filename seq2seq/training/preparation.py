"""Prepare the data of a run, and check that all its processes have the same data."""

import logging
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from seq2seq.config.schema import TrainConfig
from seq2seq.data.batching import (
    EncodedCorpus,
    IdRows,
    Mixture,
    SampledCorpus,
    TokenLinks,
    TrainingCorpus,
    samples_segmentations,
    training_mixture,
)
from seq2seq.data.cache import cached_tokenizers, digest, encode_corpus
from seq2seq.data.corpus import Corpus, load_corpora
from seq2seq.data.quality import warn_of_shared
from seq2seq.data.tokenizers.interface import TokenizerPair
from seq2seq.data.tokenizers.ruled import model_corpus, tokenizers_state
from seq2seq.data.tokenizers.tags import check_tags, with_tags
from seq2seq.evaluation.metrics import (
    DEFAULT_RULE,
    ScoringRule,
    check_bleu_is_available,
    choose_bleu_tokenize,
    text_warnings,
)
from seq2seq.files.links import GoldLinks
from seq2seq.runtime.distributed import Ranks
from seq2seq.training.losses import read_token_links

logger = logging.getLogger(__name__)

_BLEU_KEY = "training.validation.bleu_tokenize"
UNLIMITED = 2**31 - 1
"""Maximum number of tokens in validation and test sentences; all lengths are scored."""


@dataclass(kw_only=True, slots=True)
class EvaluationSet:
    """A corpus to score; row i of `encoded` belongs to line i of the other lists."""

    encoded: EncodedCorpus
    sources: list[str]
    references: list[str]
    gold: list[GoldLinks] | None
    """Gold links of each pair; None if a sentence has no gold alignment."""
    scoring_rule: ScoringRule = DEFAULT_RULE
    """Tokenizer and case sensitivity of BLEU."""


@dataclass(kw_only=True, slots=True)
class PreparedData:
    """The data of a run."""

    tokenizers: TokenizerPair
    train: TrainingCorpus
    train_links: TokenLinks | None
    """Links for guided attention; None without guided attention."""
    mixture: Mixture | None
    """Rows of an epoch, if training uses some corpora more often than others."""
    fingerprint: str
    """Hash of the training corpus."""
    habits: Mapping[str, float]
    """Habits of the training corpus."""
    sets: dict[str, EvaluationSet]
    """Scored sets by name: `valid`, which chooses the best checkpoint; `test`, unless the run has
    no test set; and `valid.NAME` for further validation sets."""
    valid_fingerprint: str
    """Hash of the validation corpus that chooses the best checkpoint."""


def prepare_data(config: TrainConfig, tokenizers: TokenizerPair | None = None) -> PreparedData:
    """Prepare the data of a run; token ids and tokenizers are read from the cache if possible.

    Args:
        config: The configuration.
        tokenizers: Tokenizers of a resumed run; None trains those of the configuration.

    Raises:
        ValueError: The data cannot be used with this configuration.
        OSError: A file cannot be read or written.
    """
    scoring = config.training.validation
    tokenize = choose_bleu_tokenize(scoring.bleu_tokenize, language=config.data.target)
    check_bleu_is_available(tokenize, key=_BLEU_KEY)
    corpora = load_corpora(config.data)
    if tokenizers is None:
        symbols = with_tags(config.tokenizer, config.data)
        tokenizers = cached_tokenizers(symbols, corpora.train, config.data.cache_dir)
    check_tags(config.tokenizer, config.data, tokenizers)
    encoded = encode_corpus(corpora.train, tokenizers, config.data)
    links = None
    if config.training.guided_attention > 0:
        links = read_token_links(config, corpora.train, encoded, tokenizers)
    rule = ScoringRule(tokenize, tokenizers.target.folds_case)

    def to_score(corpus: Corpus) -> EvaluationSet:
        unlimited = replace(config.data, max_length=UNLIMITED)
        ids = encode_corpus(corpus, tokenizers, unlimited, is_training=False)
        warn_of_shared(corpus.name, ids, encoded)
        pairs = list(corpus)
        links = [pair.links for pair in pairs if pair.links is not None]
        return EvaluationSet(
            encoded=ids,
            sources=[pair.source for pair in pairs],
            references=[pair.target for pair in pairs],
            gold=links if len(links) == len(pairs) else None,
            scoring_rule=rule,
        )

    train: TrainingCorpus = encoded
    if samples_segmentations(config.tokenizer):
        train = SampledCorpus(
            encoded,
            model_corpus(corpora.train, tokenizers.source.rules),
            tokenizers,
            config=config.tokenizer,
            seed=config.seed,
        )
    scored = {"valid": corpora.valid}
    if corpora.test is not None:
        scored["test"] = corpora.test
    scored |= {f"valid.{name}": corpus for name, corpus in corpora.other_valid.items()}
    sets = {name: to_score(corpus) for name, corpus in scored.items()}
    references = {f"data.{name}": each.references for name, each in sets.items()}
    for warning in text_warnings(references, tokenize, key=_BLEU_KEY):
        logger.warning("%s", warning)
    return PreparedData(
        tokenizers=tokenizers,
        train=train,
        train_links=links,
        mixture=training_mixture(config.data, encoded),
        fingerprint=corpora.train.fingerprint,
        habits=encoded.habits,
        sets=sets,
        valid_fingerprint=corpora.valid.fingerprint,
    )


def prepare_in_turn(
    config: TrainConfig, tokenizers: TokenizerPair | None, ranks: Ranks
) -> PreparedData:
    """Prepare the data: in rank 0, then in one process per machine, then in all others.

    Rank 0 downloads the data and fills the cache. On a machine that shares no disk with
    rank 0, the first process of that machine does this.

    Args:
        config: The configuration.
        tokenizers: Tokenizers of a resumed run; None trains those of the configuration.
        ranks: The position of this process.

    Raises:
        ValueError: The data cannot be used, or differ from the data of rank 0.
        OSError: A file cannot be read or written.
    """
    own_turn = 0 if ranks.is_first else 1 if ranks.local_rank == 0 else 2
    for turn in range(3):
        if turn == own_turn:
            data = prepare_data(config, tokenizers)
        ranks.barrier()
    _check_same_data(data, ranks)
    return data


def _check_same_data(data: PreparedData, ranks: Ranks) -> None:
    if ranks.world_size == 1:
        return
    own = dict(_checksums(data))
    first = ranks.share_from_first(own)
    if differing := [name for name in own if own[name] != first.get(name)]:
        raise ValueError(
            f"{' and '.join(differing)} differ from those of rank 0; copy the data files and "
            "data.cache_dir of rank 0 to this machine"
        )


def _checksums(data: PreparedData) -> Iterator[tuple[str, str]]:
    """Yield the name for messages and the checksum of each part of the data."""
    yield "the training data", data.fingerprint
    yield "the tokenizers", digest(tokenizers_state(data.tokenizers))
    encoded = data.train.epoch(0)
    yield "the training ids", _ids_digest(encoded.source_rows, encoded.target_rows)
    for name, each in data.sets.items():
        ids = _ids_digest(each.encoded.source_rows, each.encoded.target_rows)
        yield f"data.{name}", digest([ids, each.sources, each.references, *each.scoring_rule])


def _ids_digest(*sides: IdRows) -> str:
    return digest([[zlib.crc32(rows.ids.data), zlib.crc32(rows.offsets.data)] for rows in sides])
