"""Export a checkpoint: graphs, weights, tokenizers and a model card in one folder."""

import copy
import logging
from collections.abc import Sequence
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from seq2seq.data.tokenizers.ruled import plain_tokenizer, symbol_ids
from seq2seq.data.tokenizers.sentencepiece import SentencePieceTokenizer
from seq2seq.data.tokenizers.tags import required_tags
from seq2seq.export.card import model_card, read_results
from seq2seq.export.folder import (
    CARD,
    CHECKPOINT,
    RUNTIME,
    SOURCE,
    TARGET,
    ExportPrecision,
    Runtime,
    write_runtime,
)
from seq2seq.export.graphs import quantize_graphs, write_graphs
from seq2seq.export.search import Graphs, pad_sources
from seq2seq.export.translator import OnnxTranslator
from seq2seq.files.atomic import naming, whole_folder
from seq2seq.files.paths import check_is_free, expand_home
from seq2seq.inference.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from seq2seq.model.seq2seq import Seq2Seq
from seq2seq.runtime.kernels import Kernels
from seq2seq.runtime.kernels.operations import kernels_in_use
from seq2seq.search.config import DEFAULT_SEARCH
from seq2seq.search.loop import Integers
from seq2seq.special_tokens import BOS, EOS, SPECIAL_TOKENS
from seq2seq.version import __version__

logger = logging.getLogger(__name__)

Values = NDArray[np.floating]
NUM_CHECKED, LONGEST = 100, 30
"""Number of sources in the check, and number of tokens in the longest source and in each target."""
_BATCH_SIZES = 1, 7, 64
_TOLERANCE, _MARGIN = 1e-6, 30
"""The mean error of the graphs may be at most `_TOLERANCE + _MARGIN *` the mean error of fp32."""
_INT8_SHARE = 0.4
"""The mean error of log-probabilities in int8 may be at most this share of their mean deviation. It
is 0.01 to 0.05 for tiny models with random weights, and 0.56 or more if one product is wrong."""
_PACKAGES = ("torch", "onnx", "onnxscript", "onnxruntime")


def export_model(
    checkpoint: str | Path,
    output: str | Path,
    *,
    precision: ExportPrecision = ExportPrecision.fp32,
    overwrite: bool = False,
) -> None:
    """Write a folder that `OnnxTranslator` and `Translator` load; it is complete or absent.

    Args:
        checkpoint: A checkpoint file, or a run directory, which means its best.pt.
        output: The folder to write.
        precision: Type of the weights in the graphs.
        overwrite: Whether to replace a folder that was exported before.

    Raises:
        OSError: A file cannot be read or written, or the folder exists.
        ValueError: The file is not a checkpoint, the model has a part that ONNX lacks, or the
            graphs and the checkpoint compute different values.
    """
    folder = expand_home(output, key="output")
    check_output(folder, is_ours=(folder / RUNTIME).is_file(), overwrite=overwrite)
    folder = folder.resolve()  # a link stays, and refers to the new folder
    path = expand_home(checkpoint, key="checkpoint")
    loaded = load_checkpoint(path)
    _check_tokenizers(loaded)
    card = model_card(
        loaded,
        results=read_results(path),
        precision=precision,
        folder_name=folder.name,
    )
    with naming(folder), whole_folder(folder, replaces=overwrite) as hidden:
        (hidden / CARD).write_text(card, encoding="utf-8")
        _write(loaded, hidden, precision)
        # Exporting takes a while, and another process may have written the folder.
        check_output(folder, is_ours=(folder / RUNTIME).is_file(), overwrite=overwrite)


def check_output(path: Path, *, is_ours: bool, overwrite: bool) -> None:
    """Raise OSError unless a folder or a file may be written.

    Args:
        path: The output.
        is_ours: Whether an existing output counts as an earlier export.
        overwrite: Whether an earlier export is replaced.
    """
    if not (is_ours and overwrite):
        fault = "replace it with overwrite=true or" if is_ours else "it is not an earlier export;"
        check_is_free(path, key="output", way_out=f"{fault} choose another one")


def _check_tokenizers(checkpoint: Checkpoint) -> None:
    """Raise ValueError for tokenizers that only `Translator` supports."""
    for tokenizer in map(plain_tokenizer, checkpoint.tokenizers):
        if not isinstance(tokenizer, SentencePieceTokenizer):
            raise ValueError(
                f"{checkpoint.origin} has tokenizer={checkpoint.config.tokenizer.name}, "
                "which cannot be exported; export a model with unigram or bpe"
            )


def _write(checkpoint: Checkpoint, folder: Path, precision: ExportPrecision) -> None:
    model = checkpoint.build_model()
    config, tokenizers = checkpoint.config, checkpoint.tokenizers
    if precision is ExportPrecision.fp32:
        save_checkpoint(folder / CHECKPOINT, replace(checkpoint, training_state=None))
    for name, tokenizer in zip((SOURCE, TARGET), map(plain_tokenizer, tokenizers), strict=True):
        assert isinstance(tokenizer, SentencePieceTokenizer)
        (folder / name).write_bytes(tokenizer.model)
    rules, symbols = tokenizers.target.rules, symbol_ids(tokenizers.target)
    runtime = Runtime(
        version=__version__,
        precision=precision,
        source=config.data.source,
        target=config.data.target,
        num_heads=model.attention.num_heads,
        states=write_graphs(model, folder, symbols),
        decoding=DEFAULT_SEARCH,
        tags=required_tags(config.data),
        normalizes=rules.normalizes,
        patterns=dict(rules.patterns),
        user_symbols=list(rules.tags),
        symbols=symbols,
        habits=dict(checkpoint.habits),
        confidence=checkpoint.confidence._asdict() if checkpoint.confidence else {},
        packages={name: version(name) for name in _PACKAGES},
        files={},
    )
    write_runtime(folder, runtime)
    num_tokens = len(tokenizers.source)
    check_graphs(model, OnnxTranslator.load(folder).graphs, num_tokens=num_tokens)
    if precision is ExportPrecision.int8:
        quantize_graphs(folder)
        write_runtime(folder, runtime)
        share = check_int8(model, OnnxTranslator.load(folder).graphs, num_tokens=num_tokens)
        logger.info(
            "precision=int8 changes log-probabilities by %.1f%% of their mean deviation, so some "
            "translations differ; so may the other sentences of a batch",
            100 * share,
        )


class _Outputs(NamedTuple):
    """The outputs of a model for two targets of each of M sources."""

    log_probabilities: Values  # (M, 2, T)
    attention_weights: Values  # (M, 2, N, T, S)

    def error(self, exact: "_Outputs") -> list[float]:
        """Return the mean absolute difference of each field, 0 without values."""
        pairs = zip(self, exact, strict=True)
        return [np.abs(own - other).sum() / max(own.size, 1) for own, other in pairs]


def check_graphs(model: Seq2Seq, graphs: Graphs, *, num_tokens: int) -> None:
    """Compare exported graphs with their model on random sentences, alone and in batches.

    How much the rounding of fp32 changes a model's probabilities depends on its weights. So both
    are compared with the model in fp64: the error of the graphs may not be many times the error
    of the model in fp32.

    Args:
        model: The model of the checkpoint.
        graphs: Its graphs.
        num_tokens: Size of the source vocabulary.

    Raises:
        ValueError: The graphs and the model compute different values.
    """
    sources, targets = _random_texts(graphs, num_tokens)
    exact = _known_outputs(copy.deepcopy(model).double(), sources, targets)
    rounding = _known_outputs(model, sources, targets).error(exact)
    for size in _BATCH_SIZES:
        found = _stepped_outputs(graphs, sources, targets, batch_size=size, like=exact)
        errors = found.error(exact)
        bounds = [_TOLERANCE + _MARGIN * each for each in rounding]
        if not all(error <= bound for error, bound in zip(errors, bounds, strict=True)):
            raise ValueError(
                "the exported model differs from the checkpoint in batches of "
                f"{size}: the mean error of log-probabilities is {errors[0]:.1e} (rounding "
                f"explains {bounds[0]:.1e}), of attention weights {errors[1]:.1e} (rounding "
                f"explains {bounds[1]:.1e}); nothing was written; please report this"
            )
    logger.info("the graphs compute what the checkpoint does, up to rounding")


def check_int8(model: Seq2Seq, graphs: Graphs, *, num_tokens: int) -> float:
    """Compare graphs in int8 with their model as `check_graphs` does, but allow their rounding.

    Returns:
        The largest mean error of log-probabilities, as a share of their mean deviation.

    Raises:
        ValueError: The share is too large for a rounding.
    """
    sources, targets = _random_texts(graphs, num_tokens)
    exact = _known_outputs(copy.deepcopy(model).double(), sources, targets)
    deviation = np.abs(exact.log_probabilities - exact.log_probabilities.mean()).mean()
    errors = [
        _stepped_outputs(graphs, sources, targets, batch_size=size, like=exact).error(exact)[0]
        for size in _BATCH_SIZES
    ]
    share = float(max(errors) / deviation)
    if not share <= _INT8_SHARE:  # so NaN is refused
        raise ValueError(
            f"precision=int8 changes the log-probabilities of this model by {share:.0%} of their "
            f"mean deviation, which is more than {_INT8_SHARE:.0%}; export it with precision=fp32"
        )
    return share


def _random_texts(graphs: Graphs, num_tokens: int) -> tuple[list[list[int]], Integers]:
    """Return ids of sources, and of two targets of each, (M, 2, T)."""
    draw, first = np.random.default_rng(1), len(SPECIAL_TOKENS)
    lengths = draw.integers(1, LONGEST + 1, NUM_CHECKED)
    sources = [draw.integers(first, num_tokens, length).tolist() for length in lengths]
    # Symbols are only allowed where a source has them.
    words = np.setdiff1d(np.arange(first, graphs.vocabulary_size), graphs.symbols)
    targets = draw.choice(words, (NUM_CHECKED, 2, LONGEST))
    targets[:, :, -1] = EOS
    return sources, targets


@torch.inference_mode()
def _known_outputs(model: Seq2Seq, sources: Sequence[Sequence[int]], targets: Integers) -> _Outputs:
    """Return the outputs of the model for the targets, by teacher forcing."""
    source_ids, source_mask = (
        torch.from_numpy(part).repeat_interleave(2, dim=0) for part in pad_sources(sources)
    )
    ids = torch.from_numpy(targets).flatten(0, 1)
    with kernels_in_use(Kernels.plain):
        output = model(source_ids, source_mask, functional.pad(ids[:, :-1], (1, 0), value=BOS))
        scores = model.decoder.logits(output.readouts).log_softmax(dim=-1)
    known = scores.gather(2, ids.unsqueeze(2)).squeeze(2)
    return _Outputs(*(part.unflatten(0, (-1, 2)).numpy() for part in (known, output[1])))


def _stepped_outputs(
    graphs: Graphs,
    sources: Sequence[Sequence[int]],
    targets: Integers,
    *,
    batch_size: int,
    like: _Outputs,
) -> _Outputs:
    """Return the outputs of the graphs for the targets, read as two hypotheses of each source."""
    found = _Outputs(*map(np.zeros_like, like))
    size = graphs.vocabulary_size
    first_indices = np.array([0, size])
    for first in range(0, len(sources), batch_size):
        rows = slice(first, first + batch_size)
        source_ids, source_mask = pad_sources(sources[rows])
        shape = len(source_ids), 2
        memory, states = graphs.encode(source_ids, source_mask)
        states = [np.repeat(state, 2, axis=0) for state in states]
        tokens, zeros = np.full(shape, BOS), np.zeros(shape, np.float32)
        missing = np.zeros((tokens.size, len(graphs.symbols)), np.bool_)
        for place in range(targets.shape[2]):
            step = graphs.step(tokens, zeros, 2 * size, memory, missing, states)
            tokens, states = targets[rows, :, place], step.states
            by_index = np.take_along_axis(step.totals, np.argsort(step.indices, axis=1), axis=1)
            found.log_probabilities[rows, :, place] = np.take_along_axis(
                by_index, tokens + first_indices, axis=1
            )
            weights = step.weights.reshape(*shape, *step.weights.shape[1:])
            found.attention_weights[rows, :, :, place, : source_ids.shape[1]] = weights
    return found
