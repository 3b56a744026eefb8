"""Parallel text: from files, downloads and grammars to batches of token ids."""

from seq2seq.data.batching import Batch, Batches, BatchingConfig, BatchUnit, collate, in_order
from seq2seq.data.config import (
    DataConfig,
    FilesConfig,
    GrammarConfig,
    Multi30kConfig,
    OnInvalid,
)
from seq2seq.data.corpus import Corpora, Corpus, Pair, load_corpora
from seq2seq.data.encoded import EncodedCorpus, cached_tokenizers, encode_corpus
from seq2seq.data.grammar.corpus import GrammarCorpus
from seq2seq.data.multi30k import load_multi30k
from seq2seq.data.text_files import TextFilesCorpus
from seq2seq.data.token_links import TokenLinks, link_tokens
from seq2seq.data.tokenizers.base import (
    CharactersConfig,
    SentencePieceConfig,
    SentencePieceModel,
    Tokenizer,
    TokenizerConfig,
    TokenizerPair,
    WordsConfig,
    tokenizers_from_state,
    tokenizers_state,
    train_tokenizers,
)
from seq2seq.data.tokenizers.characters import CharacterTokenizer
from seq2seq.data.tokenizers.subwords import SentencePieceTokenizer
from seq2seq.data.tokenizers.words import PretrainedVectors, WordTokenizer, load_vectors

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
    "GrammarCorpus",
    "Multi30kConfig",
    "OnInvalid",
    "Pair",
    "PretrainedVectors",
    "SentencePieceConfig",
    "SentencePieceModel",
    "SentencePieceTokenizer",
    "TextFilesCorpus",
    "TokenLinks",
    "Tokenizer",
    "TokenizerConfig",
    "TokenizerPair",
    "WordTokenizer",
    "WordsConfig",
    "cached_tokenizers",
    "collate",
    "encode_corpus",
    "in_order",
    "link_tokens",
    "load_corpora",
    "load_multi30k",
    "load_vectors",
    "tokenizers_from_state",
    "tokenizers_state",
    "train_tokenizers",
]
