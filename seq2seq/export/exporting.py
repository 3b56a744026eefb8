"""Export a checkpoint: graphs, weights, tokenizers and a model card in one folder."""

import contextlib
import logging
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from enum import Enum
from importlib.metadata import version
from pathlib import Path

import numpy as np
import torch

from seq2seq.checkpoints.checkpoint import Checkpoint, load_checkpoint
from seq2seq.checkpoints.exported import write_model
from seq2seq.data import Tokenizer, tokenizers_state
from seq2seq.data.tokenizers.interface import required_tags
from seq2seq.export.card import model_card, read_results
from seq2seq.export.graphs import in_silence, quantize_graphs, write_graphs
from seq2seq.export.tokenizers import SENTENCEPIECE
from seq2seq.export.translator import OnnxTranslator
from seq2seq.export.translator import TranslatedHypothesis as OnnxHypothesis
from seq2seq.files.atomic import temporary_path
from seq2seq.files.exported import (
    CARD,
    FORMAT,
    RUNTIME,
    ExportPrecision,
    Runtime,
    write_runtime,
)
from seq2seq.files.paths import expand_home, file_sha256
from seq2seq.inference import TranslatedHypothesis, Translator
from seq2seq.runtime.numerics import Numerics, Precision
from seq2seq.search import BeamConfig, DecodingConfig, GreedyConfig, SamplingConfig
from seq2seq.special_tokens import BOS, EOS, PAD, SPECIAL_TOKENS, UNK
from seq2seq.version import __version__

logger = logging.getLogger(__name__)

NUM_CHECKED, LONGEST = 100, 30
"""Number of sentences of the check, and of tokens in the longest."""
TOLERANCE = 1e-5
# Random text has no end; rounding grows with each step.
_CHECKED = (GreedyConfig(max_length_ratio=1.0), BeamConfig(max_length_ratio=1.0, n_best=2))
_PACKAGES = ("torch", "onnx", "onnxscript", "onnxruntime")


def export_model(
    checkpoint: str | Path,
    output: str | Path,
    *,
    precision: ExportPrecision = ExportPrecision.fp32,
    license_name: str | None = None,
    overwrite: bool = False,
) -> None:
    """Write a folder that `OnnxTranslator` and `Translator` load; it is complete or absent.

    Args:
        checkpoint: A checkpoint file, or a run directory, which means its best.pt.
        output: The folder to write.
        precision: Type of the weights in the graphs.
        license_name: Licence that the model card names, such as mit.
        overwrite: Whether to replace a folder that was exported before.

    Raises:
        OSError: A file cannot be read or written, or the folder exists.
        ValueError: The file is not a checkpoint, the model has a part that ONNX has not, or the
            exported model translates differently.
    """
    folder = expand_home(output, key="output")
    check_output(folder, overwrite=overwrite)
    path = expand_home(checkpoint, key="checkpoint")
    loaded = load_checkpoint(path)
    _check_parts(loaded)
    card = model_card(
        loaded,
        results=read_results(path),
        precision=precision,
        license_name=license_name,
        folder_name=folder.name,
    )
    with _whole_folder(folder) as hidden:
        (hidden / CARD).write_text(card, encoding="utf-8")
        _write(loaded, hidden, precision)


def check_output(folder: Path, *, overwrite: bool) -> None:
    """Raise OSError unless the folder may be written."""
    if not folder.parent.is_dir():
        raise FileNotFoundError(f"output={folder}: there is no directory {folder.parent}; make it")
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    if not (folder / RUNTIME).is_file():
        raise FileExistsError(
            f"output={folder} exists and was not exported before; choose another output"
        )
    if not overwrite:
        raise FileExistsError(
            f"output={folder} exists already; replace it with overwrite=true or choose another "
            "output"
        )


def _check_parts(checkpoint: Checkpoint) -> None:
    """Raise ValueError for tokenizers or a default search that only `Translator` has."""
    for state in tokenizers_state(checkpoint.tokenizers).values():
        if state["kind"] != SENTENCEPIECE or "symbols" in state:
            symbols = " with user symbols" if "symbols" in state else ""
            raise ValueError(
                f"{checkpoint.origin} has tokenizer={checkpoint.config.tokenizer.name}{symbols}, "
                "which an exported model cannot have; export one with unigram or bpe"
            )
    if type(checkpoint.config.decoding) not in (GreedyConfig, BeamConfig, SamplingConfig):
        raise ValueError(
            f"{checkpoint.origin} has decoding={checkpoint.config.decoding.name} of a plug-in, "
            "which an exported model cannot have; export one with greedy or beam"
        )


@contextlib.contextmanager
def _whole_folder(folder: Path) -> Iterator[Path]:
    """Yield a hidden folder that replaces `folder` when the block ends without an error."""
    hidden, doomed = temporary_path(folder), temporary_path(folder)
    hidden.mkdir()
    try:
        yield hidden
        if folder.exists():
            folder.replace(doomed)
        hidden.replace(folder)
    finally:
        for each in (hidden, doomed):
            shutil.rmtree(each, ignore_errors=True)


def _write(checkpoint: Checkpoint, folder: Path, precision: ExportPrecision) -> None:
    model = checkpoint.build_model()
    config, tokenizers = checkpoint.config, checkpoint.tokenizers
    entries = write_model(
        folder,
        config=config,
        tokenizers=tokenizers_state(tokenizers),
        model_state=model.state_dict(),
    )
    states = write_graphs(model, folder)
    runtime = Runtime(
        format=FORMAT,
        version=__version__,
        precision=precision.name,
        source=config.data.source,
        target=config.data.target,
        special_tokens={"pad": PAD, "unk": UNK, "bos": BOS, "eos": EOS},
        target_vocabulary_size=len(tokenizers.target),
        num_heads=model.attention.num_heads,
        states=states,
        decoding=_plain(config.decoding),
        tags=required_tags(config.data),
        tokenizers=entries,
        packages={name: version(name) for name in _PACKAGES},
        files={},
    )
    write_runtime(folder, runtime)
    translator = Translator(
        model, tokenizers=tokenizers, numerics=Numerics(torch.device("cpu"), Precision.fp32)
    )
    check_translations(translator, OnnxTranslator.load(folder))
    logger.info("the graphs translate %d sentences as the checkpoint does", NUM_CHECKED)
    if precision is ExportPrecision.int8:
        quantize_graphs(folder)
        OnnxTranslator.load(folder)(random_lines(tokenizers.source))
        logger.info("precision=int8: the other sentences of a batch may change a translation")
    runtime["files"] = {path.name: file_sha256(path) for path in sorted(folder.iterdir())}
    del runtime["files"][RUNTIME]
    write_runtime(folder, runtime)


def _plain(decoding: DecodingConfig) -> dict[str, str | int | float]:
    """Return the values of a search as JSON has them."""
    values = asdict(decoding)
    return {key: each.name if isinstance(each, Enum) else each for key, each in values.items()}


def check_translations(original: Translator, exported: OnnxTranslator) -> None:
    """Compare an exported model with the original on random sentences, alone and in batches.

    Raises:
        ValueError: A text differs, or an attention weight by more than `TOLERANCE`.
    """
    lines = random_lines(original.tokenizers.source)
    for decoding in _CHECKED:
        with in_silence():  # of unknown tokens and long translations
            expected = original(lines, decoding)
        for batch_size in (1, 7, 64):
            found = exported(lines, decoding, batch_size=batch_size)
            for line, first, second in zip(lines, expected, found, strict=True):
                if difference := _difference(first.hypotheses, second.hypotheses):
                    raise ValueError(
                        f"the exported model differs from the checkpoint: {line!r}: {difference}; "
                        "nothing was written; please report this"
                    )


def _difference(
    expected: Sequence[TranslatedHypothesis], found: Sequence[OnnxHypothesis]
) -> str | None:
    """Describe the first difference of texts or attention."""
    for first, second in zip(expected, found, strict=True):
        if first.text != second.text:
            return f"{second.text!r} in place of {first.text!r}"
        distances = np.abs(first.attention_weights.numpy() - second.attention_weights)
        if distances.max(initial=0.0) > TOLERANCE:
            return f"weights of attention differ by {distances.max():.1e}"
    return None


def random_lines(tokenizer: Tokenizer) -> list[str]:
    """Return texts of random tokens, up to `LONGEST` of them in a line."""
    generator = np.random.default_rng(1)
    lengths = generator.integers(1, LONGEST + 1, NUM_CHECKED)
    first = len(SPECIAL_TOKENS)
    rows = [generator.integers(first, len(tokenizer), length).tolist() for length in lengths]
    return [" ".join(tokenizer.decode(row).split()) for row in rows]
