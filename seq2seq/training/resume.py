"""Decide what a run starts from: nothing, the weights of another run, or its own last.pt."""

import logging
from dataclasses import fields, replace
from pathlib import Path

from seq2seq.config.schema import TrainConfig
from seq2seq.config.serialization import (
    config_differences,
    describes_weights,
    is_saved_config,
    load_saved_config,
)
from seq2seq.data.config import SAMPLING_KEY
from seq2seq.data.tokenizers.tags import required_tags
from seq2seq.files.paths import expand_home
from seq2seq.inference.checkpoint import Checkpoint, TrainingState, load_checkpoint
from seq2seq.runtime.distributed import Ranks
from seq2seq.training.progress import Progress
from seq2seq.training.run_directory import RunDirectory
from seq2seq.training.trainer import Trainer

logger = logging.getLogger(__name__)

_START_AGAIN = (
    "train on from the run's best.pt with init_from and another run_name, or start again with "
    "overwrite=true, which deletes the run"
)


MAY_CHANGE = frozenset(
    {
        *("run_name", "checkpoint_dir", "resume", "overwrite", "plugins"),
        *("data.root", "data.cache_dir", "data.test"),
        *("training.max_epochs", "training.max_updates", "training.max_minutes"),
        *("training.device", "training.threads", "training.save_every_minutes"),
        *("training.log_every", "training.monitor"),
        "training.validation.num_samples",
        "decoding",
    }
)
"""Keys, and a group of keys, that a resumed run may change: budgets, places, and what only shows
or scores the model. All other keys change the updates or the choice of the best checkpoint."""


def decide_resume(config: TrainConfig, directory: RunDirectory, ranks: Ranks) -> TrainConfig:
    """Return the configuration with `resume=auto` decided by the state of the directory."""
    if config.resume != "auto":
        return config
    return replace(config, resume=ranks.share_from_first(directory.has_run or config.overwrite))


def check_start(config: TrainConfig, directory: RunDirectory) -> None:
    """Check that the run may start, before anything is read or written.

    Raises:
        ValueError: A run exists and neither resume nor overwrite was given, there is no run to
            resume, or its configuration differs.
    """
    if config.resume and config.overwrite:
        raise ValueError("resume and overwrite=true exclude each other; choose one")
    has_run = directory.has_run
    if has_run and config.overwrite:  # else the file may be another program's
        has_run = is_saved_config(directory.config)
    if not has_run:
        if config.resume:
            raise ValueError(f"resume=true: {directory.path} has no run; remove resume=true")
        if directory.path.exists() and not directory.is_free:
            raise ValueError(f"{directory.path} exists and is not a run; choose another run_name")
        return
    if config.resume:
        check_same_run(load_saved_config(directory.config), config, where=str(directory.path))
    elif not config.overwrite:
        raise ValueError(
            f"{directory.path} has a run already; continue it with resume=true, replace it with "
            "overwrite=true or choose another run_name"
        )
    elif config.init_from is not None and (
        expand_home(config.init_from, key="init_from")
        .resolve()
        .is_relative_to(directory.path.resolve())
    ):
        raise ValueError(
            f"init_from={config.init_from} is in {directory.path}, which overwrite=true deletes; "
            "choose another run_name"
        )


def check_same_run(saved: TrainConfig, config: TrainConfig, *, where: str) -> None:
    """Check that a command continues a run: only the keys of `MAY_CHANGE` may differ.

    Args:
        saved: The configuration of the run so far.
        config: The configuration of the command.
        where: The run directory, for messages.

    Raises:
        ValueError: Another key differs.
    """
    if config.init_from is not None:
        config = keep_tokenizer(config, saved)
    changes = [
        change
        for change in config_differences(saved, config)
        if not any(change.key == each or change.key.startswith(f"{each}.") for each in MAY_CHANGE)
    ]
    if changes:
        advice = "give the same values, or choose another run_name"
        if not any(describes_weights(each.key) for each in changes):
            advice += f" and begin with these weights: init_from={where}"
        raise ValueError(
            f"resume=true: {where} has another configuration: {', '.join(map(str, changes))}; "
            f"{advice}"
        )


def load_start(config: TrainConfig, directory: RunDirectory) -> Checkpoint | None:
    """Load the checkpoint that a run starts from; None: it starts with random weights.

    Only a checkpoint of the run itself has a training state.

    Raises:
        ValueError: The checkpoint cannot be read, or the configuration does not fit it.
    """
    if config.resume:
        # A run that is killed before its first last.pt has validated once at most.
        was_written = directory.results.exists() or len(directory.read_validations()) > 1
        if was_written or directory.last.exists():
            return _load_last(directory.last)
        logger.info("resume=true: no checkpoint was written yet; the run starts again")
    return load_initial_checkpoint(config)


def _load_last(last: Path) -> Checkpoint:
    checkpoint = load_checkpoint(last)
    if checkpoint.training_state is None:
        raise ValueError(
            f"resume=true: {last} has no training state; restore the file that the run wrote, "
            f"{_START_AGAIN}"
        )
    return checkpoint


def load_initial_checkpoint(config: TrainConfig) -> Checkpoint | None:
    """Load the checkpoint whose weights and tokenizers the training begins with.

    Args:
        config: The configuration; init_from is a checkpoint file, or a run directory, which means
            its best.pt.

    Returns:
        The checkpoint without its training state, or None if the configuration names none.

    Raises:
        ValueError: The checkpoint cannot be read, or the configuration does not fit it.
    """
    if config.init_from is None:
        return None
    if config.model.encoder.vectors is not None or config.model.decoder.vectors is not None:
        raise ValueError(
            f"init_from={config.init_from} already has embeddings; remove "
            "model.encoder.vectors and model.decoder.vectors"
        )
    checkpoint = load_checkpoint(config.init_from)
    differences = config_differences(checkpoint.config, config)
    is_joint = getattr(checkpoint.config.tokenizer, "joint", False)  # no tokens of other targets
    misfits = [
        str(each)
        for each in differences
        if describes_weights(each.key) or (is_joint and each.key == "data.target")
    ]
    if misfits:
        raise ValueError(
            f"init_from={config.init_from} does not fit: {', '.join(misfits)}; give "
            "these keys the value before the arrow, which is the checkpoint's"
        )
    logger.info("weights and tokenizers of %s", checkpoint.origin)
    unused = [
        str(each)
        for each in differences
        if each.key.startswith("tokenizer.") and not each.key.endswith(SAMPLING_KEY)
    ]
    if unused:
        logger.warning(
            "init_from: the tokenizers of the checkpoint are used, so these settings of the "
            "command have no effect (checkpoint -> command): %s",
            ", ".join(unused),
        )
    tags = required_tags(checkpoint.config.data)
    if tags and not required_tags(config.data):
        logger.warning(
            "init_from: the checkpoint has learned from sources that begin with a tag (%s), but "
            "not every corpus of data.train has a tag; add a tag unless the lines contain one",
            ", ".join(tags),
        )
    return replace(checkpoint, training_state=None)


def keep_tokenizer(config: TrainConfig, saved: TrainConfig) -> TrainConfig:
    """Return a configuration that describes the tokenizers of a checkpoint as they were trained.

    Args:
        config: The configuration of the command; its settings of sampling are kept.
        saved: The configuration of the checkpoint.
    """
    if type(config.tokenizer) is not type(saved.tokenizer):
        return config
    names = {SAMPLING_KEY} & {each.name for each in fields(config.tokenizer)}
    sampling = {name: getattr(config.tokenizer, name) for name in names}
    return replace(config, tokenizer=replace(saved.tokenizer, **sampling))


def continue_training(trainer: Trainer, state: TrainingState) -> None:
    """Continue from the state of a last.pt; the weights of the model are loaded separately.

    Args:
        trainer: The trainer, which has made no update yet.
        state: The state.

    Raises:
        ValueError: The text of the training or the validation set has changed.
    """
    data, path = trainer.data, trainer.directory.path
    texts = {
        "training": (state["fingerprint"], data.fingerprint),
        "validation": (state["valid_fingerprint"], data.valid_fingerprint),
    }
    for name, (before, now) in texts.items():
        if before != now:
            raise ValueError(
                f"resume=true: the {name} data have changed since {trainer.directory.last} was "
                "written; restore them, or choose another run_name and begin with these weights: "
                f"init_from={path}"
            )
    progress = trainer.progress = Progress.from_dict(state["progress"])
    # With a larger budget, less of it is used.
    due = progress.due_tenth(trainer.config.training)
    progress.validated_tenth = min(progress.validated_tenth, due)
    trainer.updater.load_state(state["updater"])
    # Another number of processes may change the number of updates per epoch.
    progress.continue_epoch(len(trainer.groups_of_epoch()))
