"""Decide what a run starts from: nothing, the weights of another run, or its own last.pt."""

import difflib
import logging
from dataclasses import replace
from pathlib import Path

from seq2seq.checkpoints.checkpoint import Checkpoint, TrainingState, load_checkpoint
from seq2seq.checks import Mark, marks_of_keys
from seq2seq.config.composition import describe_unknown_key
from seq2seq.config.schema import TrainConfig
from seq2seq.config.serialization import (
    config_differences,
    flatten_config,
    is_saved_config,
    load_saved_config,
)
from seq2seq.data.tokenizers.interface import required_tags
from seq2seq.files.paths import expand_home
from seq2seq.runtime.distributed import Ranks
from seq2seq.training.progress import Progress
from seq2seq.training.run_directory import RunDirectory
from seq2seq.training.trainer import Trainer

logger = logging.getLogger(__name__)

_START_AGAIN = (
    "train on from the run's best.pt with init_from and another run_name, or start again with "
    "overwrite=true, which deletes the run"
)


def decide_resume(config: TrainConfig, directory: RunDirectory, ranks: Ranks) -> TrainConfig:
    """Return the configuration with `resume=auto` decided by the state of the directory."""
    if config.resume != "auto":
        return config
    has_run = ranks.share_from_first(directory.has_run or config.overwrite)
    changes = config.resume_changes if has_run else []  # in a new run, there is nothing to change
    return replace(config, resume=has_run, resume_changes=changes)


def check_start(config: TrainConfig, directory: RunDirectory) -> None:
    """Check that the run may start, before anything is read or written.

    Raises:
        ValueError: A run exists and neither resume nor overwrite was given, there is no run to
            resume, or its configuration differs.
    """
    if config.resume and config.overwrite:
        raise ValueError("resume and overwrite=true exclude each other; choose one")
    if config.resume_changes and not config.resume:
        raise ValueError(
            "resume_changes names keys to change in a run: add resume=true, "
            "or resume_changes=[] for a new run"
        )
    if not directory.has_run:
        if config.resume:
            raise ValueError(f"resume=true: {directory.path} has no run; remove resume=true")
        if directory.path.exists() and not directory.is_free:
            raise ValueError(f"{directory.path} exists and is not a run; choose another run_name")
        return
    if config.resume:
        saved = load_saved_config(directory.config)
        check_changes(saved, config, where=str(directory.path))
    elif not config.overwrite:
        raise ValueError(
            f"{directory.path} has a run already; continue it with resume=true, replace it with "
            "overwrite=true or choose another run_name"
        )
    elif not is_saved_config(directory.config):  # another program's file
        raise ValueError(
            f"overwrite=true: {directory.config} is not the configuration of a run; choose "
            "another run_name"
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


def check_changes(saved: TrainConfig, config: TrainConfig, *, where: str) -> None:
    """Check that only allowed keys differ; log the differences that `resume_changes` names.

    Args:
        saved: The configuration of the run so far.
        config: The configuration of the command.
        where: The run directory, for messages.

    Raises:
        ValueError: Another key differs, or `resume_changes` names a key that does not exist or
            cannot change.
    """
    known = flatten_config(saved).keys() | flatten_config(config).keys()
    for given in config.resume_changes:
        if not any(_belongs(key, given) for key in known):
            near = difflib.get_close_matches(given, known, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise ValueError(f"resume_changes: {describe_unknown_key(given, hint)}")
    if config.init_from is not None:
        config = keep_tokenizer(config, saved)
    differences = config_differences(saved, config, Mark.named, Mark.fixed)
    others = [
        difference
        for difference in differences
        if not any(_belongs(difference.key, given) for given in config.resume_changes)
    ]
    if others:
        advice = "give the same values or choose another run_name"
        if not any(Mark.fixed in other.marks for other in others):
            advice = (
                "give the same values, choose another run_name, or change them on purpose: "
                f"resume_changes=[{','.join(other.key for other in others)}]"
            )
        raise ValueError(
            f"resume=true: {where} has another configuration: {', '.join(map(str, others))}; "
            f"{advice}"
        )
    for difference in differences:
        if Mark.fixed in difference.marks:
            example = f", for example with init_from={where}"
            raise ValueError(
                f"resume_changes: {difference} cannot change, because last.pt depends on it; "
                f"begin another run{'' if Mark.model in difference.marks else example}"
            )
        logger.warning("resume_changes: %s applies from now on", difference)


def _belongs(key: str, given: str) -> bool:
    """Return whether a key is the given key, or a key inside that section."""
    return key == given or key.startswith(f"{given}.")


def load_start(config: TrainConfig, directory: RunDirectory) -> Checkpoint | None:
    """Load the checkpoint that a run starts from; None: it starts with random weights.

    Only a checkpoint of the run itself has a training state.

    Raises:
        ValueError: The checkpoint cannot be read, or the configuration does not fit it.
    """
    if config.resume:
        if directory.last.exists():
            return _load_last(directory.last)
        # A run that is killed before its first last.pt has validated once at most.
        if directory.results.exists() or len(directory.read_validations()) > 1:
            raise ValueError(
                f"resume=true: {directory.path} is a run without last.pt; restore it, "
                f"{_START_AGAIN}"
            )
        logger.info("resume=true: no checkpoint was written yet; the run starts again")
    return load_initial_checkpoint(config)


def _load_last(last: Path) -> Checkpoint:
    try:
        checkpoint = load_checkpoint(last)
    except ValueError as error:
        raise ValueError(f"resume=true: {error}, {_START_AGAIN}") from error
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
    try:
        checkpoint = load_checkpoint(config.init_from)
    except (OSError, ValueError) as error:
        reason = str(error).removeprefix("checkpoint=")
        raise ValueError(f"init_from={reason}") from error
    if differences := config_differences(checkpoint.config, config, Mark.model):
        raise ValueError(
            f"init_from={config.init_from} does not fit: {', '.join(map(str, differences))}; give "
            "these keys the values of the checkpoint, which are listed first"
        )
    tokenizer, target = checkpoint.config.tokenizer, checkpoint.config.data.target
    if getattr(tokenizer, "restrict_target", False) and config.data.target != target:
        raise ValueError(
            f"init_from={config.init_from} has only tokens of data.target={target}, not of "
            f"{config.data.target}; train it with tokenizer.restrict_target=false, or use the "
            "same language code in both runs"
        )
    logger.info("weights and tokenizers of %s", checkpoint.origin)
    unused = [
        str(difference)
        for difference in config_differences(checkpoint.config, config, Mark.fixed)
        if difference.key.startswith("tokenizer.")
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
    marks = marks_of_keys(config.tokenizer)
    names = [key.removeprefix("tokenizer.") for key in marks if Mark.fixed in marks[key]]
    trained = {name: getattr(saved.tokenizer, name) for name in names}
    return replace(config, tokenizer=replace(config.tokenizer, **trained))


def continue_training(trainer: Trainer, state: TrainingState, *, saved: TrainConfig) -> None:
    """Continue from the state of a last.pt; the weights of the model are loaded separately.

    Args:
        trainer: The trainer, which has made no update yet.
        state: The state.
        saved: The configuration of the last.pt.

    Raises:
        ValueError: The training data have changed, and `resume_changes` does not name them.
    """
    config, data = trainer.config, trainer.data
    if state["fingerprint"] != data.fingerprint:
        what = f"the training data have changed since {trainer.directory.last} was written"
        given = config.resume_changes
        if not any(each == "data" or _belongs(each, "data.train") for each in given):
            raise ValueError(
                f"resume=true: {what}; restore them, choose another run_name, or accept the new "
                "data: resume_changes=[data]"
            )
        logger.warning("resume_changes: %s; training continues on them", what)
    progress = trainer.progress = Progress.from_dict(state["progress"])
    changes = [difference.key for difference in config_differences(saved, config, Mark.scores)]
    if progress.valid_fingerprint not in ("", data.valid_fingerprint):
        changes.insert(0, "the validation data")
    progress.valid_fingerprint = data.valid_fingerprint
    if changes:
        progress.forget_best()
        message = "the choice of the best checkpoint starts over, because %s changed"
        logger.warning(message, ", ".join(changes))
    progress.best = progress.best[: config.training.validation.keep_best]
    trainer.updater.load_state(state["updater"])
    # Another number of processes or of accumulated batches changes the number of updates per epoch.
    progress.continue_epoch(len(trainer.groups_of_epoch()))
