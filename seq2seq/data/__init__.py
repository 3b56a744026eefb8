"""Parallel text: from files and downloads to batches of token ids.

Example:
    >>> from tempfile import TemporaryDirectory
    >>> from seq2seq import load_config
    >>> folder = TemporaryDirectory()
    >>> config = load_config("tokenizer=characters", f"data.cache_dir='{folder.name}'")
    >>> corpora = load_corpora(config.data)
    >>> tokenizers = train_tokenizers(config.tokenizer, corpora.valid)
    >>> encoded = encode_corpus(corpora.valid, tokenizers, config.data)
    >>> batch = collate(encoded, batches_by_length(encoded, 8)[0])
    >>> len(encoded), len(batch.source_ids)
    (500, 8)
    >>> folder.cleanup()
"""

import seq2seq.data.grammar  # they register their loaders
import seq2seq.data.multi30k  # noqa: F401
from seq2seq.data.batching import (
    Batch,
    Batches,
    BatchingConfig,
    BatchUnit,
    EncodedCorpus,
    TokenLinks,
    TrainingCorpus,
    batches_by_length,
    collate,
    link_tokens,
    make_batch,
)
from seq2seq.data.cache import cached_tokenizers, encode_corpus
from seq2seq.data.config import (
    CharactersConfig,
    DataConfig,
    FilesConfig,
    GrammarConfig,
    Multi30kConfig,
    Normalization,
    OnInvalid,
    SentencePieceConfig,
    SentencePieceModel,
    TokenizerConfig,
    WordsConfig,
)
from seq2seq.data.corpus import Corpora, Corpus, ListCorpus, Pair, load_corpora
from seq2seq.data.files import TextFilesCorpus
from seq2seq.data.segmentation import SampledCorpus, samples_segmentations, training_corpus
from seq2seq.data.tokenizers.interface import (
    SymbolTokenizer,
    Tokenizer,
    TokenizerPair,
    register_tokenizer,
    tokenizers_from_state,
    tokenizers_state,
    train_tokenizers,
)
from seq2seq.data.tokenizers.sentencepiece import SentencePieceTokenizer
from seq2seq.data.tokenizers.words import (
    CharacterTokenizer,
    PretrainedVectors,
    WordTokenizer,
    load_vectors,
)

__all__ = [
    "Batch",
    "BatchUnit",
    "Batches",
    "BatchingConfig",
    "CharacterTokenizer",
    "CharactersConfig",
    "Corpora",
    "Corpus",
    "DataConfig",
    "EncodedCorpus",
    "FilesConfig",
    "GrammarConfig",
    "ListCorpus",
    "Multi30kConfig",
    "Normalization",
    "OnInvalid",
    "Pair",
    "PretrainedVectors",
    "SampledCorpus",
    "SentencePieceConfig",
    "SentencePieceModel",
    "SentencePieceTokenizer",
    "SymbolTokenizer",
    "TextFilesCorpus",
    "TokenLinks",
    "Tokenizer",
    "TokenizerConfig",
    "TokenizerPair",
    "TrainingCorpus",
    "WordTokenizer",
    "WordsConfig",
    "batches_by_length",
    "cached_tokenizers",
    "collate",
    "encode_corpus",
    "link_tokens",
    "load_corpora",
    "load_vectors",
    "make_batch",
    "register_tokenizer",
    "samples_segmentations",
    "tokenizers_from_state",
    "tokenizers_state",
    "train_tokenizers",
    "training_corpus",
]
