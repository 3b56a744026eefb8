"""The schema of a training, its composition from the YAML files, and the model it describes."""

import copy
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Annotated, Any

from hydra.core.config_store import ConfigStore
from omegaconf import DictConfig, OmegaConf

from seq2seq.attention.base import ATTENTION, AttentionConfig
from seq2seq.checks import (
    Config,
    Count,
    FilePath,
    OneOf,
    Positive,
    Probability,
    Range,
    Threads,
    Weight,
)
from seq2seq.config.composition import load_as, register_parts
from seq2seq.config.plugins import load_plugins_of
from seq2seq.data.batching import BatchingConfig
from seq2seq.data.config import DataConfig, TokenizerConfig
from seq2seq.data.corpus import DATA
from seq2seq.data.files import languages_of_files
from seq2seq.data.tokenizers.interface import TOKENIZERS
from seq2seq.evaluation.metrics import AUTO, CHOICES
from seq2seq.model.config import ModelConfig
from seq2seq.model.seq2seq import Seq2Seq
from seq2seq.registry import Registry
from seq2seq.runtime.devices import Device, Precision
from seq2seq.runtime.kernels import Kernels
from seq2seq.search.config import DecodingConfig
from seq2seq.search.searches import SEARCHES


class OptimizerName(Enum):
    """The optimizers to choose from."""

    adam = "adam"
    adamw = "adamw"
    sgd = "sgd"


class ScheduleName(Enum):
    """The course of the learning rate after warm-up."""

    constant = "constant"
    inverse_square_root = "inverse_square_root"
    cosine = "cosine"
    plateau = "plateau"


class Monitor(Enum):
    """A service that shows the curves of a run."""

    tensorboard = "tensorboard"
    wandb = "wandb"
    mlflow = "mlflow"


class Metric(Enum):
    """The validation metric that chooses the best checkpoint."""

    bleu = "bleu"
    chrf = "chrf"
    loss = "loss"


@dataclass(kw_only=True, slots=True, repr=False)
class OptimizerConfig(Config, section="training.optimizer"):
    """Optimizer, highest learning rate and gradient clipping."""

    name: OptimizerName
    """Name of the optimizer."""
    learning_rate: Positive
    """Highest learning rate of the schedule."""
    weight_decay: Weight
    """Factor of the weight decay; adam and sgd add it to the gradient as an L2 penalty."""
    clip_norm: Weight
    """Maximum gradient norm; larger gradients are scaled down. 0 disables clipping."""


@dataclass(kw_only=True, slots=True, repr=False)
class ScheduleConfig(Config, section="training.schedule"):
    """The schedule of the learning rate."""

    name: ScheduleName
    """Shape of the learning rate schedule after warm-up."""
    warmup_updates: Annotated[int, Range(0)]
    """Number of updates in which the learning rate rises linearly from 0."""


@dataclass(kw_only=True, slots=True, repr=False)
class TeacherForcingConfig(Config, section="training.teacher_forcing"):
    """The share of true previous tokens, instead of predicted ones: it falls linearly from 1."""

    end: Annotated[float, Range(0, 1)]
    """Share of true previous tokens at the end."""
    updates: Count
    """Number of updates until the end."""


@dataclass(kw_only=True, slots=True, repr=False)
class ValidationConfig(Config, section="training.validation"):
    """Intervals of validation, and the use of its results."""

    every_updates: Count | None
    """Number of updates between validations; None: validate in the middle of each tenth of the
    budget, at least 20 updates apart."""
    metric: Metric
    """Metric that chooses the best checkpoint."""
    patience: Count | None
    """Number of validations without an improvement after which training stops; None: no such
    stop."""
    keep_best: Count
    """Number of best checkpoints to keep; above 1, each is also kept as step-<n>.pt."""
    num_samples: Annotated[int, Range(0)]
    """Number of sentences whose translations and attention maps go to TensorBoard."""
    bleu_tokenize: Annotated[str, OneOf(CHOICES)] = AUTO
    """sacreBLEU's tokenizer for BLEU, in validation and results; auto: chosen by the target
    language."""


@dataclass(kw_only=True, slots=True, repr=False)
class TrainingConfig(Config, section="training"):
    """The training configuration; training ends when the first budget is used up."""

    max_epochs: Count | None
    """Maximum number of passes over the training text."""
    max_updates: Count | None
    """Maximum number of updates of the weights."""
    max_minutes: Positive | None
    """Maximum minutes of training and validation, summed over resumed runs."""
    batching: BatchingConfig
    accumulation: Count
    """Number of batches per update."""
    label_smoothing: Probability
    """Share of the probability that the loss spreads over all tokens."""
    guided_attention: Weight
    """Weight of the loss that trains attention to follow word links, relative to the translation
    loss; 0: no such loss."""
    optimizer: OptimizerConfig
    schedule: ScheduleConfig
    teacher_forcing: TeacherForcingConfig
    validation: ValidationConfig
    precision: Precision
    """Number format of matrix products."""
    kernels: Kernels
    device: Device
    """Device to train on."""
    threads: Threads | None
    """Number of CPU threads; None: torch's default."""
    log_every: Count
    """Number of updates between two points of the TensorBoard curves."""
    # Optional keys, which are off or have the usual value by default.
    dropout_warmup_epochs: Weight = 0.0
    """Number of epochs in which dropout rises linearly from 0 to its probabilities; 0: it is
    constant."""
    ema_decay: Probability | None = None
    """Decay of the moving average of the weights that is validated and kept; None: no average."""
    save_every_minutes: Positive | None = None
    """Minutes between saves of last.pt; None: save only at validations."""
    coverage_loss: Weight = 0.0
    """Weight of the coverage loss, which penalizes repeated attention to a source token; 0: no such
    loss."""
    losses: dict[str, float] = field(default_factory=dict)
    """Weights of losses of plug-ins, by name, as in +training.losses.NAME=0.1."""
    monitor: Monitor = Monitor.tensorboard
    """Service that also receives the training curves; TensorBoard files are always written."""

    def __post_init__(self) -> None:
        Config.__post_init__(self)
        budgets = (self.max_epochs, self.max_updates, self.max_minutes)
        if all(budget is None for budget in budgets):
            raise ValueError(
                "training needs a budget: set training.max_epochs, training.max_updates or "
                "training.max_minutes"
            )


@dataclass(kw_only=True, slots=True, repr=False)
class TrainConfig(Config):
    """The configuration of a training run."""

    run_name: str
    """Name of the run directory."""
    checkpoint_dir: FilePath
    """Directory that contains the run directories."""
    resume: Annotated[bool | str, OneOf((True, False, "auto"))]
    """Continue the run in the run directory; "auto": continue if there is a run, else begin one."""
    overwrite: bool
    """Delete the run in the run directory and start again."""
    seed: int
    """Seed of all random numbers."""
    data: DataConfig
    tokenizer: TokenizerConfig
    attention: AttentionConfig
    model: ModelConfig
    training: TrainingConfig
    decoding: DecodingConfig
    # Optional keys, which are off or have the usual value by default.
    init_from: FilePath | None = None
    """Checkpoint or run directory that provides the initial weights and the tokenizers."""
    plugins: list[str] = field(default_factory=list)
    """Python files that register parts, such as attention types; see `load_plugins`."""

    def __post_init__(self) -> None:
        Config.__post_init__(self)
        name = self.run_name
        if name in ("", ".", "..") or Path(name).name != name or not name.isprintable():
            raise ValueError(
                f"run_name={name!r} must be the name of a directory, without a path or control "
                "characters; choose its parent directory with checkpoint_dir"
            )
        for group, types in config_groups().items():
            config = getattr(self, group)
            if types.get(config.name) is not type(config):
                raise ValueError(
                    f"{group}.name={config.name} does not match the chosen {group}; remove it and "
                    f"set {group}= to one of {', '.join(sorted(types))}"
                )


def config_groups() -> dict[str, dict[str, type]]:
    """Return the config types of each replaceable part, by group and name."""
    registries: dict[str, Registry[Any]] = {
        "attention": ATTENTION,
        "data": DATA,
        "tokenizer": TOKENIZERS,
        "decoding": SEARCHES,
    }
    return {group: registry.config_types() for group, registry in registries.items()}


def _language_of_files(side: str, *, _parent_: DictConfig) -> str:
    """Return the language that the file names of a side, source or target, end in."""
    data = OmegaConf.to_container(_parent_)  # unresolved: file names may refer to the languages
    assert isinstance(data, dict)
    values = [data[key] for key in ("train", "valid", "test") if data[key] is not None]
    try:
        return languages_of_files(*values)[side]
    except ValueError:  # the configuration check reports the wrong value
        return side


# Registered here, because the processes of a sweep resolve configurations composed by another
# process.
OmegaConf.register_new_resolver("language_of_files", _language_of_files, replace=True)


def register_schemas() -> None:
    """Register the dataclasses with Hydra, which checks every key and type as it composes."""
    ConfigStore.instance().store(name="train_schema", node=TrainConfig)
    for group, types in config_groups().items():
        register_parts(group, types)


def load_config(*overrides: str) -> TrainConfig:
    """Compose the configuration that `train.py` would train with.

    Args:
        overrides: Arguments of `train.py`, such as `"attention=dot"` or `"training.max_epochs=2"`.

    Raises:
        ValueError: There is no such key or choice, or a value is missing, has the wrong type or is
            out of its range.

    Example:
        >>> config = load_config("attention=dot", "model=luong")
        >>> config.attention.name, config.model.input_feeding
        ('dot', True)
    """
    load_plugins_of(overrides)
    registered = tuple(each for types in config_groups().values() for each in types.values())
    return copy.deepcopy(_load_config(overrides, registered))


@cache
def _load_config(overrides: tuple[str, ...], registered: tuple[type, ...]) -> TrainConfig:
    register_schemas()
    return load_as(TrainConfig, "train", overrides)


def build_model(
    config: TrainConfig, *, source_vocabulary_size: int, target_vocabulary_size: int
) -> Seq2Seq:
    """Build the model that a configuration describes, with random weights.

    Args:
        config: The configuration, for example from `load_config`.
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
