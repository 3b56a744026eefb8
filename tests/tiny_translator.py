"""A tiny translator and its checkpoint, for tests."""

from dataclasses import replace
from pathlib import Path

import torch

from seq2seq.checks import field_types
from seq2seq.cli.translate_config import TranslateConfig, load_translate_config
from seq2seq.config.schema import TrainConfig, build_model, load_config
from seq2seq.data.tokenizers.interface import TokenizerPair
from seq2seq.data.tokenizers.words import CharacterTokenizer
from seq2seq.inference.checkpoint import Checkpoint, save_checkpoint
from seq2seq.inference.translations import TranslatedHypothesis, TranslatedSentence
from seq2seq.inference.translator import Translator
from seq2seq.runtime.devices import Device, Precision
from seq2seq.runtime.numerics import Numerics
from seq2seq.search.config import BeamConfig, GreedyConfig, convert_search

SENTENCES = [
    "ein hund rennt",
    "zwei",
    "",
    "der schnee ist tief und weiss",
    " \t",
    "ja",
    "nein und ja",
    "ein kind",
]
BEAM = BeamConfig(max_length_ratio=1.0, max_length_offset=3, beam_size=3, n_best=2)
BEST = replace(BEAM, n_best=1)
GREEDY = convert_search(BEAM, GreedyConfig)


def make_config(attention: str = "additive") -> TrainConfig:
    """Compose the default configuration with tiny sizes."""
    return load_config(f"attention={attention}", "tokenizer=characters", *SIZES)


SIZES = ("model.embedding_size=6", "model.encoder.hidden_size=6", "model.decoder.hidden_size=12")


TOKENIZERS = TokenizerPair(
    CharacterTokenizer("abcdefghijklmnopqrstuvwxyz "), CharacterTokenizer("abcdefgh .")
)


def make_checkpoint(
    attention: str = "additive", *, seed: int = 3, tokenizers: TokenizerPair = TOKENIZERS
) -> Checkpoint:
    """Return random weights that are large enough for varied translations."""
    config = make_config(attention)
    torch.manual_seed(seed)
    model = build_model(
        config,
        source_vocabulary_size=len(tokenizers.source),
        target_vocabulary_size=len(tokenizers.target),
    )
    state = {name: 4 * value for name, value in model.state_dict().items()}
    return Checkpoint(config=config, tokenizers=tokenizers, model_state=state, training_state=None)


def write_checkpoint(
    directory: Path, attention: str = "additive", *, tokenizers: TokenizerPair = TOKENIZERS
) -> Path:
    """Write best.pt and return its directory."""
    directory.mkdir()
    save_checkpoint(directory / "best.pt", make_checkpoint(attention, tokenizers=tokenizers))
    return directory


def make_translator(
    attention: str = "additive", *, seed: int = 3, tokenizers: TokenizerPair = TOKENIZERS
) -> Translator:
    checkpoint = make_checkpoint(attention, seed=seed, tokenizers=tokenizers)
    return Translator(
        checkpoint.build_model(),
        tokenizers=checkpoint.tokenizers,
        numerics=Numerics(torch.device("cpu"), Precision.fp32),
        decoding=checkpoint.config.decoding,
    )


def make_translate_config(checkpoint: Path | str | list[str], **changes: object) -> TranslateConfig:
    """Return the configuration of translate.py with default values and some changes.

    Without references, the search is that of the tests; one path may stand for a list.
    """
    checkpoints = checkpoint if isinstance(checkpoint, list) else [str(checkpoint)]
    values = {"checkpoint": checkpoints, "batch_size": 3, "device": Device.cpu}
    if "reference" not in changes:
        shows_all = {"output_format", "attention_plot"} & {*changes}
        values["decoding"] = BEAM if shows_all else BEST
    types = field_types(TranslateConfig)
    lists = {
        key: [value]
        for key, value in changes.items()
        if isinstance(value, str) and list in types[key].bases
    }
    return replace(load_translate_config("checkpoint=run"), **values | changes | lists)


def translated(source: str, text: str) -> TranslatedSentence:
    """Return a sentence with a text and nothing else."""
    hypothesis = TranslatedHypothesis(
        text=text,
        score=0.0,
        log_probability=0.0,
        finished=True,
        ids=[],
        tokens=[],
        attention_weights=torch.zeros(1, 1, 1),
    )
    return TranslatedSentence(source, [], [], [hypothesis])
