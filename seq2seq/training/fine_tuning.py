"""Begin a training with the weights of a checkpoint, or with pretrained word vectors."""

import logging
from dataclasses import replace

import torch

from seq2seq.checkpoints.checkpoint import Checkpoint, load_checkpoint
from seq2seq.config.schema import TrainConfig
from seq2seq.config.serialization import config_differences
from seq2seq.data import DataConfig, TokenizerPair, load_vectors
from seq2seq.data.files.tags import required_tags
from seq2seq.model.seq2seq import Seq2Seq

logger = logging.getLogger(__name__)

_MUST_FIT = ("attention.", "model.", "tokenizer.name ")
"""Keys that say what the weights compute and what the tokenizers are."""
_MAY_DIFFER = ("dropout", ".vectors ")
"""Keys among them that only concern training."""


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
    differences = [
        difference
        for difference in config_differences(checkpoint.config, config)
        if difference.startswith(_MUST_FIT)
        and not any(part in difference.partition("(")[0] for part in _MAY_DIFFER)
    ]
    if differences:
        raise ValueError(
            f"init_from={config.init_from} does not fit: {', '.join(differences)}; give these keys "
            "the values of the checkpoint, which stand first"
        )
    logger.info("weights and tokenizers of %s", checkpoint.origin)
    _warn_of_other_data(checkpoint.config.data, config.data)
    return replace(checkpoint, training_state=None)


def _warn_of_other_data(old: DataConfig, new: DataConfig) -> None:
    """Log that the weights were trained for other languages, or with tags that are missing now.

    A language of data=files that was not given is called source or target.
    """
    sides = ((old.source, new.source, "source"), (old.target, new.target, "target"))
    if any(before != now and unnamed not in (before, now) for before, now, unnamed in sides):
        logger.warning(
            "init_from: the checkpoint translates from %s to %s, but this training from %s to %s",
            *(old.source, old.target, new.source, new.target),
        )
    tags = required_tags(old)
    if tags and not required_tags(new):
        logger.warning(
            "init_from: every training corpus of the checkpoint had a tag (%s), but data.train "
            "has corpora without one; give the tag, unless it stands in the lines",
            ", ".join(tags),
        )


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
        with torch.no_grad():
            found = vectors.matrix.any(dim=1)
            embedding.weight[found] = vectors.matrix[found]
        logger.info(
            "model.%s.vectors: %d of %d tokens found", name, vectors.num_found, len(tokenizer)
        )


def freeze_embeddings(model: Seq2Seq) -> None:
    """Exclude the embeddings of source and target, and a tied output matrix, from training."""
    for embedding in (model.encoder.embedding, model.decoder.embedding):
        embedding.weight.requires_grad_(False)
