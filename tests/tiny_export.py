"""A tiny checkpoint with subwords, which can be exported, for tests."""

import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from seq2seq.attention.base import AttentionConfig
from seq2seq.config.schema import build_model, load_config
from seq2seq.data.corpus import Pair
from seq2seq.data.tokenizers.ruled import train_tokenizers
from seq2seq.evaluation.confidence import Confidence
from seq2seq.export import exporting
from seq2seq.export.folder import ENCODER, STEP, read_runtime
from seq2seq.inference.checkpoint import Checkpoint
from seq2seq.search.config import BeamConfig, EarlyStopping
from seq2seq.special_tokens import EOS

TEXTS = [
    ("ein hund rennt durch den schnee", "a dog runs through the snow"),
    ("zwei kinder spielen im park", "two children play in the park"),
    ("der mann liest ein buch und lacht", "the man reads a book and laughs"),
    ("eine frau geht nach hause", "a woman walks home"),
]
SENTENCES = [
    "ein hund rennt",
    "zwei",
    "",
    "der mann liest ein buch und lacht im schnee durch den park nach hause",
    " \t",
    "<2en> eine frau spielt",
    "  der mann liest 12\u00a0bu\u0308cher und 7",
    "1 2 3 4 5 6 7 8 9 10 11 12",
]
EXAMPLES = ["ein hund rennt", "</script><b>zwei"]
"""Sentences that the page offers."""
BEAM = BeamConfig(beam_size=4, n_best=3)
BEAMS = [
    BEAM,
    replace(BEAM, length_penalty=0.0),
    replace(BEAM, early_stopping=EarlyStopping.first),
    replace(BEAM, max_length_ratio=0.0, max_length_offset=2),
    BeamConfig(beam_size=200, n_best=200, max_length_ratio=0.0, max_length_offset=3),
]


def make_exportable(
    *overrides: str, attention: AttentionConfig | None = None, deviation: float = 0.5
) -> Checkpoint:
    """Return random weights that are large enough for varied translations.

    Args:
        overrides: Keys of the configuration.
        attention: Configuration of the attention in place of that of the keys.
        deviation: Standard deviation of the weights; the larger, the more rounding grows by steps.
    """
    config = load_config(
        "tokenizer=unigram",
        "tokenizer.vocabulary_size=61",
        "tokenizer.user_symbols=['<2en>']",
        "tokenizer.protect=[numbers]",
        "tokenizer.joint=false",
        "model.embedding_size=6",
        "model.encoder.hidden_size=4",
        "model.decoder.hidden_size=8",
        *overrides,
    )
    if attention is not None:
        config.attention = attention
    tokenizers = train_tokenizers(config.tokenizer, [Pair(*texts) for texts in TEXTS])
    model = build_model(
        config,
        source_vocabulary_size=len(tokenizers.source),
        target_vocabulary_size=len(tokenizers.target),
    )
    torch.manual_seed(3)
    for parameter in model.parameters():
        parameter.data.normal_(std=deviation)
    model.decoder.output.bias.data[EOS] = 1.2  # some translations end before the limit
    return Checkpoint(
        config=config,
        tokenizers=tokenizers,
        model_state=model.state_dict(),
        training_state=None,
        confidence=Confidence(slope=60.0, intercept=30.0, spread=9.0, mean=60.0, first_fifth=40.0),
    )


def use_graphs_of(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let every export take the graphs of a folder, because tracing a model takes seconds."""

    def copy_graphs(model: object, output: Path, symbols: Sequence[int] = ()) -> list[str]:
        for name in (ENCODER, STEP):
            shutil.copy(folder / name, output)
        return read_runtime(folder).states

    monkeypatch.setattr(exporting, "write_graphs", copy_graphs)
