"""Parallel text: from files and downloads to batches of token ids."""

# Importing these modules registers their corpora and tokenizers.
from seq2seq.data import files, grammar, multi30k  # noqa: F401
from seq2seq.data.tokenizers import sentencepiece, words  # noqa: F401
