"""Check which keys of the configuration differ when a run is resumed."""

import difflib
import logging
from pathlib import Path

from seq2seq.config.schema import TrainConfig
from seq2seq.config.serialization import config_differences, flatten_config
from seq2seq.training.progress import Progress

logger = logging.getLogger(__name__)

_MAY_DIFFER = (
    "resume",
    "overwrite",
    "plugins",  # A plug-in is found by the name of its type, wherever its file is now.
    "run_name",
    "checkpoint_dir",
    "data.cache_dir",
    "data.root",
    "data.base_url",
    "data.allow_tabs",
    "data.max_epochs",
    "data.vocabulary_size",  # It and the next ones act through keys that refer to them.
    "data.batch_tokens",
    "data.learning_rate",
    "data.dropout",
    "data.test",
    "decoding.name",
    "decoding.beam_size",
    "decoding.n_best",
    "decoding.length_penalty",
    "decoding.coverage_penalty",
    "decoding.early_stopping",
    "decoding.temperature",
    "decoding.top_",
    "decoding.num_samples",
    "decoding.seed",
    "training.max_",
    "training.device",
    "training.threads",
    "training.log_every",
    "training.save_every_minutes",
    "training.validation.num_samples",
    "training.validation.batch_size",
    "training.guided_attention.alignments",  # The fingerprint of the data covers the content.
)
"""Keys that may change when a run is resumed: they change neither an update nor the choice of the
best checkpoint, or are budgets. A new budget moves the end of the cosine schedule."""

_FIXED = (
    "tokenizer.",
    "init_from",
    "model.encoder.vectors",
    "model.decoder.vectors",
    "training.optimizer.name",
    "training.freeze_embeddings",
    "training.ema_decay",
)
"""Keys of what last.pt contains; another value would have no effect, or would not fit."""
_NOT_FIXED = ("tokenizer.sampling_",)
_OF_DATA = ("data.train", "training.guided_attention")
"""Keys that stand for the training data, as "data" does."""
_OF_SCORES = (
    "data.target",
    "decoding.min_length",
    "decoding.max_length",
    "decoding.no_repeat_ngram",
    "training.validation.metric",
    "training.validation.bleu_tokenize",
    "training.validation.lowercase",
)
"""Keys that validation scores depend on, besides the data."""


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
    for key in config.resume_changes:
        if not any(_belongs(each, key) for each in known):
            near = difflib.get_close_matches(key, sorted(known), n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            raise ValueError(f"resume_changes: unknown key {key!r}{hint}")
    differences = {
        key: values
        for key, values in changes(saved, config).items()
        if not key.startswith(_MAY_DIFFER)
    }
    others = [
        f"{key} {values}"
        for key, values in differences.items()
        if not any(_belongs(key, given) for given in config.resume_changes)
    ]
    if others:
        keys = [other.partition(" ")[0] for other in others]
        advice = "give the same values or choose another run_name"
        if not any(map(_is_fixed, keys)):
            advice = (
                "give the same values, choose another run_name, or change them on purpose: "
                f"resume_changes=[{','.join(keys)}]"
            )
        raise ValueError(
            f"resume=true: {where} has another configuration: {', '.join(others)}; {advice}"
        )
    for key, values in differences.items():
        if _is_fixed(key):
            raise ValueError(
                f"resume_changes: {key} {values} cannot change, because last.pt depends on it; "
                f"begin another run, for example with init_from={where}"
            )
        logger.warning("resume_changes: %s %s from now on", key, values)


def _is_fixed(key: str) -> bool:
    return key.startswith(_FIXED) and not key.startswith(_NOT_FIXED)


def changes(saved: TrainConfig, config: TrainConfig) -> dict[str, str]:
    """Return the keys whose values differ, with both values in brackets."""
    named = (difference.partition(" ") for difference in config_differences(saved, config))
    return {key: values for key, _, values in named}


def check_same_data(config: TrainConfig, saved: str, fingerprint: str, *, last: Path) -> None:
    """Check that the training data are those of the run, unless `resume_changes` names them.

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
    what = (
        "the training data, or the alignments of guided attention, have changed since "
        f"{last} was written"
    )
    if "data" not in config.resume_changes and not any(
        _belongs(key, group) for key in config.resume_changes for group in _OF_DATA
    ):
        raise ValueError(
            f"resume=true: {what}; restore them, choose another run_name, or use them on purpose: "
            "resume_changes=[data.train]"
        )
    logger.warning("resume_changes: %s; training continues on them", what)


def forget_best(
    progress: Progress, saved: TrainConfig, config: TrainConfig, valid_fingerprint: str
) -> None:
    """Forget the best checkpoints if their scores cannot be compared with those to come.

    Args:
        progress: The counters of the run.
        saved: The configuration that the scores were computed with.
        config: The new configuration.
        valid_fingerprint: Hash of the validation corpus now.
    """
    is_other_data = progress.valid_fingerprint not in ("", valid_fingerprint)
    progress.valid_fingerprint = valid_fingerprint
    keys = [key for key in changes(saved, config) if key.startswith(_OF_SCORES)]
    if not is_other_data and not keys:
        return
    progress.best, progress.since_best, progress.zero_scores = [], 0, 0
    progress.validated_update = 0  # a run that was complete is validated again
    reason = ", ".join([*["the validation data"] * is_other_data, *keys])
    logger.warning("the best checkpoint is chosen anew, because %s changed", reason)


def _belongs(key: str, given: str) -> bool:
    """Return whether a key is the given one or a part of it."""
    return key == given or key.startswith(f"{given}.")
