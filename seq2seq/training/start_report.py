"""Log what a run begins with, and the settings that have no effect on it."""

import logging
from collections.abc import Iterator
from dataclasses import asdict

from seq2seq.attention import AttentionConfig, NoAttentionConfig
from seq2seq.config.schema import TeacherForcingConfig, TeacherForcingSchedule, TrainConfig
from seq2seq.data import FilesConfig, SentencePieceConfig
from seq2seq.data.segmentation import samples_segmentations
from seq2seq.model.config import DecoderConfig, DropoutMode, EncoderConfig
from seq2seq.model.seq2seq import count_parameters
from seq2seq.training.trainer import Trainer

logger = logging.getLogger(__name__)

_OF_WORDS = "word_dropout"
"""Dropout that is drawn anew for each token in every mode."""


def log_start(trainer: Trainer) -> None:
    """Log the sizes of the data and the model, the device, and settings without effect."""
    config, data, numerics = trainer.config, trainer.data, trainer.numerics
    for warning in settings_without_effect(config):
        logger.warning("%s", warning)
    logger.info(
        "%s: %d training pairs, %d + %d tokens, attention %s, %d parameters, %s, %s",
        trainer.directory.path,
        len(data.train),
        len(data.tokenizers.source),
        len(data.tokenizers.target),
        config.attention.name,
        count_parameters(trainer.model),
        numerics.device,
        numerics.precision.value,
    )
    if trainer.progress.update:
        logger.info("resumed after update %d", trainer.progress.update)


def settings_without_effect(config: TrainConfig) -> Iterator[str]:
    """Yield a warning for each setting that another one makes ineffective.

    Example:
        >>> from seq2seq.config.schema import load_config
        >>> list(settings_without_effect(load_config("training.r_drop=5", "data.dropout=0")))
        ['training.r_drop=5.0 compares two passes that are equal without dropout; set data.dropout']
    """
    training = config.training
    yield from _dropout_without_effect(config)
    has_vectors = config.model.encoder.vectors or config.model.decoder.vectors
    if training.freeze_embeddings and not (config.init_from or has_vectors):
        yield (
            "training.freeze_embeddings=true keeps embeddings that are random, because neither "
            "init_from nor vectors are given"
        )
    yield from _teacher_forcing_without_effect(training.teacher_forcing)
    warmup = training.schedule.warmup_updates
    if training.max_updates is not None and warmup >= training.max_updates:
        yield (
            f"training.schedule.warmup_updates={warmup} is not over when "
            f"training.max_updates={training.max_updates} ends the training"
        )
    tokenizer = config.tokenizer
    nbest = tokenizer.sampling_nbest if isinstance(tokenizer, SentencePieceConfig) else -1
    if nbest != -1 and not samples_segmentations(tokenizer):
        yield f"tokenizer.sampling_nbest={nbest} is not used, because tokenizer.sampling_alpha=0"
    sets = config.data.train_sets() if isinstance(config.data, FilesConfig) else []
    if len(sets) == 1 and sets[0].weight != 1:
        yield f"{sets[0].key}.weight={sets[0].weight} is not used, because data.train is one corpus"


def _dropout_without_effect(config: TrainConfig) -> Iterator[str]:
    sides: dict[str, EncoderConfig | DecoderConfig]
    sides = {"model.encoder": config.model.encoder, "model.decoder": config.model.decoder}
    attention = config.attention
    parts: list[AttentionConfig | EncoderConfig | DecoderConfig] = [*sides.values()]
    if not isinstance(attention, NoAttentionConfig):
        parts.append(attention)
    elif attention.dropout > 0:
        yield f"attention.dropout={attention.dropout} is not used by attention=none"
    r_drop = config.training.r_drop
    if r_drop > 0 and not any(map(_has_dropout, parts)):
        yield (
            f"training.r_drop={r_drop} compares two passes that are equal without "
            "dropout; set data.dropout"
        )
    idle = [
        name
        for name, side in sides.items()
        if side.dropout_mode is DropoutMode.sequence and not _has_dropout(side, besides=_OF_WORDS)
    ]
    if idle:
        yield (
            f"{idle[0]}.dropout_mode=sequence has no effect without dropout of vectors; set "
            "data.dropout"
        )


def _teacher_forcing_without_effect(forcing: TeacherForcingConfig) -> Iterator[str]:
    is_constant = forcing.schedule is TeacherForcingSchedule.constant
    if is_constant and forcing.end not in (forcing.start, 1.0):  # 1 is the default
        yield (
            f"training.teacher_forcing.end={forcing.end} is not used by the constant schedule; "
            "choose another training.teacher_forcing.schedule"
        )
    if not is_constant and forcing.start == forcing.end == 1:
        yield (
            f"training.teacher_forcing.schedule={forcing.schedule.name} goes from 1 to 1, so every "
            "token is the true one; set training.teacher_forcing.end"
        )


def _has_dropout(
    part: AttentionConfig | EncoderConfig | DecoderConfig, besides: str | None = None
) -> bool:
    """Return whether a part of the model has dropout of a kind besides one."""
    rates = {key: value for key, value in asdict(part).items() if key.endswith("dropout")}
    return any(value > 0 for key, value in rates.items() if key != besides)
