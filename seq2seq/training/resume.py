"""Continue a run, or begin one with given weights, where the configuration allows it."""

import difflib
import logging
from dataclasses import replace
from pathlib import Path

import torch

from seq2seq.checkpoints.checkpoint import Checkpoint, load_checkpoint
from seq2seq.checks import Mark, marks_of_keys
from seq2seq.config.composition import describe_unknown_key
from seq2seq.config.schema import TrainConfig
from seq2seq.config.serialization import config_differences, flatten_config
from seq2seq.data.tokenizers.interface import TokenizerPair, required_tags
from seq2seq.data.tokenizers.words import load_vectors
from seq2seq.model.seq2seq import Seq2Seq
from seq2seq.training.progress import Progress

logger = logging.getLogger(__name__)


def check_changes(saved: TrainConfig, config: TrainConfig, *, where: str) -> None:
    """Check that only keys that may differ do so; log those that `resume_changes` names.

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
        logger.warning("resume_changes: %s from now on", difference)


def check_same_data(config: TrainConfig, saved: str, fingerprint: str, *, last: Path) -> None:
    """Check that the training data have not changed, unless `resume_changes` names them.

    Args:
        config: The configuration of the command.
        saved: Fingerprint of the data of the run so far.
        fingerprint: Fingerprint of the data now.
        last: The last.pt, for messages.

    Raises:
        ValueError: The training data have changed.
    """
    if saved == fingerprint:
        return
    what = f"the training data have changed since {last} was written"
    if not any(each == "data" or _belongs(each, "data.train") for each in config.resume_changes):
        raise ValueError(
            f"resume=true: {what}; restore them, choose another run_name, or accept the new data: "
            "resume_changes=[data]"
        )
    logger.warning("resume_changes: %s; training continues on them", what)


def forget_best(
    progress: Progress, saved: TrainConfig, config: TrainConfig, valid_fingerprint: str
) -> None:
    """Forget the best checkpoints if their scores cannot be compared with later scores.

    Args:
        progress: The counters of the run.
        saved: The configuration that the scores were computed with.
        config: The new configuration.
        valid_fingerprint: Hash of the validation corpus now.
    """
    is_other_data = progress.valid_fingerprint not in ("", valid_fingerprint)
    progress.valid_fingerprint = valid_fingerprint
    keys = [difference.key for difference in config_differences(saved, config, Mark.scores)]
    if not is_other_data and not keys:
        return
    progress.best, progress.since_best, progress.zero_scores = [], 0, 0
    progress.validated_update = 0  # a complete run is validated again
    reason = ", ".join([*["the validation data"] * is_other_data, *keys])
    logger.warning("the best checkpoint is chosen anew, because %s changed", reason)


def _belongs(key: str, given: str) -> bool:
    """Return whether a key is the given one or a part of it."""
    return key == given or key.startswith(f"{given}.")


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
            "init_from: the tokenizers come from the checkpoint, so its settings, which are listed "
            "first, apply to this run: %s",
            ", ".join(unused),
        )
    tags = required_tags(checkpoint.config.data)
    if tags and not required_tags(config.data):
        logger.warning(
            "init_from: the checkpoint has learned from sources that begin with a tag (%s), but "
            "not every corpus of data.train has a tag; add it, unless the lines already contain it",
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


def load_embedding_vectors(config: TrainConfig, model: Seq2Seq, tokenizers: TokenizerPair) -> None:
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
        vectors = load_vectors(part.vectors, tokenizer, part.embedding_size)
        found = vectors.any(dim=1)
        with torch.no_grad():
            embedding.weight[found] = vectors[found]
        logger.info("model.%s.vectors: %d of %d tokens found", name, found.sum(), len(tokenizer))
