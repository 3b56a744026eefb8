"""Export a checkpoint: graphs, weights, tokenizers and a model card in one folder."""

import contextlib
import logging
import shutil
from collections.abc import Iterator
from importlib.metadata import version
from pathlib import Path
from typing import cast

import numpy as np
import torch

from seq2seq.checkpoints.checkpoint import Checkpoint, load_checkpoint
from seq2seq.checkpoints.exported import write_model
from seq2seq.config.serialization import config_to_dict
from seq2seq.data import Tokenizer, tokenizers_state
from seq2seq.data.tokenizers.interface import required_tags
from seq2seq.export.card import model_card, read_results
from seq2seq.export.graphs import in_silence, quantize_graphs, write_graphs
from seq2seq.export.tokenizers import SENTENCEPIECE
from seq2seq.export.translator import OnnxTranslator
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
from seq2seq.inference import TranslatedHypothesis, Translation, Translator
from seq2seq.inference.translation import score_targets
from seq2seq.model import Seq2Seq
from seq2seq.runtime.devices import Precision
from seq2seq.runtime.numerics import Numerics
from seq2seq.search import BeamConfig, GreedyConfig, Hypothesis, SamplingConfig
from seq2seq.special_tokens import BOS, EOS, PAD, SPECIAL_TOKENS, UNK
from seq2seq.version import __version__

logger = logging.getLogger(__name__)

NUM_CHECKED, LONGEST = 100, 30
"""Number of sentences of the check, and of tokens in the longest."""
TOLERANCE = 1e-5
_MOST_TIES = 10
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
    check_output(folder, is_ours=(folder / RUNTIME).is_file(), overwrite=overwrite)
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


def check_output(path: Path, *, is_ours: bool, overwrite: bool) -> None:
    """Raise OSError unless a folder or a file may be written.

    Args:
        path: The output.
        is_ours: Whether an output that exists may be an earlier export.
        overwrite: Whether an earlier export is replaced.
    """
    if not path.parent.is_dir():
        raise FileNotFoundError(f"output={path}: there is no directory {path.parent}; make it")
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return
    if not is_ours:
        raise FileExistsError(
            f"output={path} exists and was not exported before; choose another output"
        )
    if not overwrite:
        raise FileExistsError(
            f"output={path} exists already; replace it with overwrite=true or choose another output"
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
            f"{checkpoint.origin} has decoding={checkpoint.config.decoding.name}, "
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
        decoding=cast(dict[str, str | int | float], config_to_dict(config.decoding)),
        tags=required_tags(config.data),
        tokenizers=entries,
        packages={name: version(name) for name in _PACKAGES},
        files={},
    )
    write_runtime(folder, runtime)
    translator = Translator(
        model, tokenizers=tokenizers, numerics=Numerics(torch.device("cpu"), Precision.fp32)
    )
    ties = check_translations(translator, model, OnnxTranslator.load(folder))
    logger.info(
        "the graphs translate %d of %d sentences as the checkpoint does%s",
        NUM_CHECKED - ties,
        NUM_CHECKED,
        "; rounding decides the others" if ties else "",
    )
    if precision is ExportPrecision.int8:
        quantize_graphs(folder)
        OnnxTranslator.load(folder)(random_lines(tokenizers.source))
        logger.info("precision=int8: the other sentences of a batch may change a translation")
    runtime["files"] = {path.name: file_sha256(path) for path in sorted(folder.iterdir())}
    del runtime["files"][RUNTIME]
    write_runtime(folder, runtime)


def check_translations(original: Translator, model: Seq2Seq, exported: OnnxTranslator) -> int:
    """Compare an exported model with the original on random sentences, alone and in batches.

    Where a model gives two tokens the same probability, rounding decides between them. A text may
    differ so in a few sentences, if the original model gives the tokens of the exported one the
    same probabilities; most texts of a model that was hardly trained are of this kind.

    Args:
        original: The translator of the checkpoint.
        model: Its model.
        exported: The translator of the folder.

    Returns:
        The largest number of such sentences in a search.

    Raises:
        ValueError: A probability, an attention weight or too many texts differ.
    """
    lines = random_lines(original.tokenizers.source)
    most_ties = 0
    for decoding in _CHECKED:
        with in_silence():  # of unknown tokens and long translations
            expected = original(lines, decoding)
        for batch_size in (1, 7, 64):
            found = exported(lines, decoding, batch_size=batch_size)
            ties = sum(_is_tie(model, *pair) for pair in zip(expected, found, strict=True))
            most_ties = max(ties, most_ties)
    if most_ties > _MOST_TIES:
        raise ValueError(
            f"the exported model translates {most_ties} of {NUM_CHECKED} sentences differently, "
            "because the checkpoint finds many tokens equally probable; train it longer"
        )
    return most_ties


def _is_tie(model: Seq2Seq, expected: Translation, found: Translation) -> bool:
    """Compare a translation, and return whether rounding decided its text."""
    hypotheses = [*zip(expected.hypotheses, found.hypotheses, strict=False)]
    is_tie = any(first.ids != second.ids for first, second in hypotheses)
    for first, second in hypotheses:
        log_probabilities, weights = first.token_log_probabilities, first.attention_weights
        if first.ids != second.ids:
            known = _score(model, found.source_ids, second)
            log_probabilities, weights = known.token_log_probabilities, known.attention_weights
        of_tokens, of_attention = (
            float(np.abs(np.asarray(one) - np.asarray(other)).max(initial=0.0))
            for one, other in (
                (log_probabilities, second.token_log_probabilities),
                (weights, second.attention_weights),
            )
        )
        # In log-probabilities, which are differences of totals, rounding is larger.
        if not (of_tokens <= 10 * TOLERANCE and of_attention <= TOLERANCE):
            raise ValueError(
                f"the exported model differs from the checkpoint: {found.source!r}: "
                f"log-probabilities by {of_tokens:.1e}, attention by {of_attention:.1e}; nothing "
                "was written; please report this"
            )
    return is_tie


def _score(model: Seq2Seq, source_ids: list[int], found: TranslatedHypothesis) -> Hypothesis:
    """Let the checkpoint's model score the tokens of an exported one."""
    source = torch.tensor([[*source_ids, EOS]])
    target = torch.tensor([[*found.ids, EOS] if found.finished else found.ids])
    [scored] = score_targets(
        model,
        source,
        torch.ones_like(source, dtype=torch.bool),
        target_ids=target,
        target_mask=torch.ones_like(target, dtype=torch.bool),
    )
    return scored


def random_lines(tokenizer: Tokenizer) -> list[str]:
    """Return texts of random tokens, up to `LONGEST` of them in a line."""
    generator = np.random.default_rng(1)
    lengths = generator.integers(1, LONGEST + 1, NUM_CHECKED)
    first = len(SPECIAL_TOKENS)
    rows = [generator.integers(first, len(tokenizer), length).tolist() for length in lengths]
    return [" ".join(tokenizer.decode(row).split()) for row in rows]
