"""Build the model that a configuration describes, and check that its parts fit together."""

from seq2seq.config.schema import TrainConfig
from seq2seq.model.seq2seq import Seq2Seq
from seq2seq.search import BeamConfig
from seq2seq.special_tokens import SPECIAL_TOKENS


def build_model(
    config: TrainConfig, *, source_vocabulary_size: int, target_vocabulary_size: int
) -> Seq2Seq:
    """Build the model that a configuration describes, with random weights.

    Args:
        config: The configuration, for example of `load_config`.
        source_vocabulary_size: Number of source token ids.
        target_vocabulary_size: Number of target token ids.

    Returns:
        The model in training mode, with weights drawn from torch's generator.

    Raises:
        ValueError: Parts of the configuration do not fit together.

    Example:
        >>> from seq2seq.config.schema import load_config
        >>> config = load_config("attention=dot", "model.decoder.num_layers=2")
        >>> model = build_model(config, source_vocabulary_size=50, target_vocabulary_size=60)
        >>> model.decoder.output.out_features
        60
    """
    return Seq2Seq(
        config.model,
        attention=config.attention,
        source_vocabulary_size=source_vocabulary_size,
        target_vocabulary_size=target_vocabulary_size,
    )


def check_model(config: TrainConfig) -> None:
    """Raise ValueError unless model, attention, search and the losses of attention fit together.

    The check builds the model with the smallest vocabularies, so it needs no data.
    """
    size = len(SPECIAL_TOKENS)
    model = build_model(config, source_vocabulary_size=size, target_vocabulary_size=size)
    if isinstance(config.decoding, BeamConfig) and model.attention.num_heads == 0:
        config.decoding.check_without_attention()
    losses = {
        "training.guided_attention.weight": config.training.guided_attention.weight,
        "training.coverage_loss": config.training.coverage_loss,
    }
    for key, weight in losses.items():
        if weight > 0 and not model.attention.learns_weights:
            raise ValueError(
                f"{key}={weight} needs attention that learns its weights, which "
                f"attention={config.attention.name} does not; choose another attention or {key}=0"
            )
