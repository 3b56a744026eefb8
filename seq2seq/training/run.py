"""Train a model as its configuration says: data, model, training, test scores."""

import contextlib
import gc
import logging
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import torch

from seq2seq.checks import counted
from seq2seq.config.schema import TrainConfig, TrainingConfig, build_model
from seq2seq.config.serialization import config_differences
from seq2seq.data.tokenizers.interface import TokenizerPair, share_ids
from seq2seq.data.tokenizers.words import load_vectors
from seq2seq.files.paths import reading
from seq2seq.model.config import TiedEmbeddings
from seq2seq.model.seq2seq import Seq2Seq, count_parameters, count_shared_parameters
from seq2seq.runtime.devices import Device, Precision
from seq2seq.runtime.distributed import Ranks, process_group
from seq2seq.runtime.kernels.operations import kernels_in_use
from seq2seq.runtime.numerics import Numerics, choose_numerics, derive_seed, memory_errors_named
from seq2seq.search.config import BeamConfig
from seq2seq.special_tokens import SPECIAL_TOKENS
from seq2seq.training.curves import check_monitor
from seq2seq.training.log import RunLog
from seq2seq.training.losses import check_losses
from seq2seq.training.preparation import prepare_in_turn
from seq2seq.training.results import FinalScores, log_results, write_results
from seq2seq.training.resume import (
    check_start,
    continue_training,
    decide_resume,
    keep_tokenizer,
    load_start,
)
from seq2seq.training.run_directory import RunDirectory
from seq2seq.training.trainer import Trainer

logger = logging.getLogger(__name__)


def run_training(config: TrainConfig, path: str | Path, *, command: str = "") -> FinalScores:
    """Train a model, score its best checkpoint on the test set and write the results.

    Args:
        config: The configuration, for example of `load_config`.
        path: The run directory, which gets the checkpoints, results, curves and log.
        command: The command of the run, which results.json records.

    Returns:
        The scores of the best checkpoint; every process of the run returns them.

    Raises:
        ValueError: The configuration, the data or the run directory do not allow the run.
        Interrupted: A signal stopped the run; it can be resumed.
        NonFiniteError: The loss or a gradient was not finite.
        DeviceMemoryError: A batch does not fit into the memory of a GPU.
    """
    training, directory = config.training, RunDirectory(Path(path))
    on_gpus = training.device is not Device.cpu and torch.cuda.is_available()
    with (
        process_group(on_gpus=on_gpus) as ranks,
        RunLog(quiet=not ranks.is_first) as log,
        directory.lock() if ranks.is_first else contextlib.nullcontext(),
        _settings_of(training),
    ):
        numerics = choose_numerics(training.device, training.precision, local_rank=ranks.local_rank)
        if ranks.world_size > 1 and numerics.device.type == "cuda":
            torch.cuda.set_device(numerics.device)
        check_same_config(config, ranks)
        config = decide_resume(config, directory, ranks)
        if ranks.is_first:
            check_start(config, directory)
            check_monitor(training.monitor)
        trainer = _prepare(config, directory, numerics, ranks)
        with contextlib.closing(trainer.data.train):
            if ranks.is_first:
                directory.open(replace(config, tokenizer=trainer.config.tokenizer))
                log.open(directory.log)
            log_start(trainer)
            trainer.train()
            scores = write_results(trainer, command)
            if ranks.is_first:
                log_results(trainer, scores)
            ranks.barrier()  # only rank 0 writes; its errors end all processes
            return scores


@contextlib.contextmanager
def _settings_of(training: TrainingConfig) -> Iterator[None]:
    """Train with these kernels and CPU threads; if memory is too small, name the keys to change."""
    num_threads = torch.get_num_threads()
    with kernels_in_use(training.kernels), _memory_errors():
        torch.set_num_threads(training.threads or num_threads)
        try:
            yield
        finally:
            torch.set_num_threads(num_threads)


def _memory_errors() -> contextlib.AbstractContextManager[None]:
    way_out = "choose a smaller model, or lower training.batching.size"
    return memory_errors_named("the model and its optimizer", way_out)


_OF_MACHINE = {"checkpoint_dir", "data.root", "data.cache_dir", "training.device"}
"""Keys that may have another value in each process: paths and devices."""


def check_same_config(config: TrainConfig, ranks: Ranks) -> None:
    """Check that this process has the configuration of rank 0, but for paths and devices.

    Raises:
        ValueError: This process was started with another configuration.
    """
    differences = [
        str(difference)
        for difference in config_differences(ranks.share_from_first(config), config)
        if difference.key not in _OF_MACHINE
    ]
    if differences:
        raise ValueError(
            f"the configuration differs from rank 0's: {', '.join(differences)}; "
            "give all processes the same arguments"
        )


@contextlib.contextmanager
def _garbage_collection_disabled() -> Iterator[None]:
    """Disable garbage collection while long-lived objects are built; saves half a second."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def check_parts(config: TrainConfig) -> None:
    """Raise ValueError unless model, attention, search and losses fit together.

    The check builds the model with the smallest vocabularies, so it needs no data.
    """
    size = len(SPECIAL_TOKENS)
    model = build_model(config, source_vocabulary_size=size, target_vocabulary_size=size)
    if isinstance(config.decoding, BeamConfig) and model.attention.num_heads == 0:
        config.decoding.check_without_attention()
    check_losses(config, model.attention)


@_garbage_collection_disabled()
def _prepare(
    config: TrainConfig, directory: RunDirectory, numerics: Numerics, ranks: Ranks
) -> Trainer:
    """Build the trainer; nothing is written to the run directory yet."""
    training = config.training
    check_parts(config)
    # The other processes may be on machines without access to the disk of rank 0.
    start = ranks.compute_in_first(lambda: load_start(config, directory))
    data = prepare_in_turn(config, start.tokenizers if start else None, ranks)
    if config.model.tied_embeddings is TiedEmbeddings.all and not share_ids(data.tokenizers):
        raise ValueError(
            "model.tied_embeddings=all needs one vocabulary for both languages; set "
            "tokenizer.joint=true or model.tied_embeddings=decoder"
        )
    torch.manual_seed(derive_seed(config.seed, "parameters"))
    model = build_model(
        config,
        source_vocabulary_size=len(data.tokenizers.source),
        target_vocabulary_size=len(data.tokenizers.target),
    )
    if start is None:
        _load_vectors(config, model, data.tokenizers)
    else:
        config = keep_tokenizer(config, start.config)
        start.load_into(model)
    if training.precision is Precision.auto:
        numerics = numerics.suited_to(count_shared_parameters(model))
    trainer = Trainer(
        replace(config, resume=False, overwrite=False),
        model=model.to(numerics.device),
        data=data,
        numerics=numerics,
        ranks=ranks,
        directory=directory,
    )
    if start is not None and start.training_state is not None:
        with reading(start.origin), _memory_errors():  # which do not mean a damaged file
            continue_training(trainer, start.training_state)
    ranks.copy_from_first(trainer.model)
    return trainer


def _load_vectors(config: TrainConfig, model: Seq2Seq, tokenizers: TokenizerPair) -> None:
    """Fill the embeddings with pretrained vectors, where the configuration names a file.

    Raises:
        OSError: A file cannot be read.
        ValueError: The vectors do not fit the embedding, or are not finite.
    """
    sides = (
        ("encoder", config.model.encoder, model.encoder.embedding, tokenizers.source),
        ("decoder", config.model.decoder, model.decoder.embedding, tokenizers.target),
    )
    for name, part, embedding, tokenizer in sides:
        if part.vectors is None:
            continue
        vectors = load_vectors(part.vectors, tokenizer, config.model.embedding_size)
        found = vectors.any(dim=1)
        with torch.no_grad():
            embedding.weight[found] = vectors[found]
        logger.info("model.%s.vectors: %d of %d tokens found", name, found.sum(), len(tokenizer))


def log_start(trainer: Trainer) -> None:
    """Log the sizes of the data and the model, and the device."""
    config, data, numerics = trainer.config, trainer.data, trainer.numerics
    logger.info(
        "%s: %s, vocabularies of %d and %d tokens, attention %s, %s, %s, %s",
        trainer.directory.path,
        counted(len(data.train), "training pair"),
        len(data.tokenizers.source),
        len(data.tokenizers.target),
        config.attention.name,
        counted(count_parameters(trainer.model), "parameter"),
        numerics.device,
        numerics.precision.value,
    )
    if trainer.progress.update:
        logger.info("resumed after update %d", trainer.progress.update)
