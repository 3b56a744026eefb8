"""The training configuration: budget, optimizer, schedules, validation."""

import math
from dataclasses import dataclass
from enum import Enum

from seq2seq.checks import check_positive, check_probabilities
from seq2seq.data.batching import BatchingConfig
from seq2seq.kernels.switch import Kernels
from seq2seq.runtime.numerics import Device, Precision


class OptimizerName(Enum):
    """The optimizers to choose from."""

    adam = "adam"
    adamw = "adamw"
    sgd = "sgd"


class ScheduleName(Enum):
    """How the learning rate goes on after warm-up."""

    constant = "constant"
    inverse_square_root = "inverse_square_root"
    cosine = "cosine"
    plateau = "plateau"


class TeacherForcingUnit(Enum):
    """What one draw decides: a single token or a whole batch."""

    token = "token"
    batch = "batch"


class TeacherForcingSchedule(Enum):
    """How the ratio goes from start to end."""

    constant = "constant"
    linear = "linear"
    exponential = "exponential"
    inverse_sigmoid = "inverse_sigmoid"


class Metric(Enum):
    """What the best checkpoint is best by, on validation."""

    bleu = "bleu"
    loss = "loss"


@dataclass(kw_only=True, slots=True)
class OptimizerConfig:
    """The optimizer."""

    name: OptimizerName
    learning_rate: float
    """The highest of the schedule."""
    weight_decay: float
    clip_norm: float
    """Gradients longer than this are scaled down to it; 0 never clips."""

    def __post_init__(self) -> None:
        if not 0 < self.learning_rate < math.inf:
            raise ValueError(
                f"training.optimizer.learning_rate={self.learning_rate} must be above 0"
            )
        for key in ("weight_decay", "clip_norm"):
            if not 0 <= getattr(self, key) < math.inf:
                raise ValueError(
                    f"training.optimizer.{key}={getattr(self, key)} must be a number of at least 0"
                )


@dataclass(kw_only=True, slots=True)
class ScheduleConfig:
    """The learning rate over time."""

    name: ScheduleName
    warmup_updates: int
    """The rate rises linearly from 0 for so long."""
    minimum_ratio: float
    """Of the highest rate; cosine ends there, plateau stops falling there."""
    plateau_factor: float
    """Plateau multiplies the rate by it after `plateau_patience` validations without a best."""
    plateau_patience: int

    def __post_init__(self) -> None:
        if self.warmup_updates < 0:
            raise ValueError(
                f"training.schedule.warmup_updates={self.warmup_updates} must not be negative"
            )
        check_probabilities("training.schedule", self, "minimum_ratio", "plateau_factor")
        check_positive("training.schedule", self, "plateau_patience")


@dataclass(kw_only=True, slots=True)
class TeacherForcingConfig:
    """How often the decoder is fed the true previous token rather than its own."""

    unit: TeacherForcingUnit
    schedule: TeacherForcingSchedule
    start: float
    end: float
    updates: int
    """The schedule goes from start to end in so many updates."""

    def __post_init__(self) -> None:
        for key in ("start", "end"):
            if not 0 <= getattr(self, key) <= 1:
                raise ValueError(
                    f"training.teacher_forcing.{key}={getattr(self, key)} must lie in [0, 1]"
                )
        check_positive("training.teacher_forcing", self, "updates")


@dataclass(kw_only=True, slots=True)
class GuidedAttentionConfig:
    """A second loss, which pulls attention towards given alignments of the training text."""

    weight: float
    """Of this loss, where that of translation has 1; 0 leaves attention alone."""
    alignments: str | None
    """File of Pharaoh text, parallel to the training files; None takes the corpus' own links."""

    def __post_init__(self) -> None:
        if not 0 <= self.weight < math.inf:
            raise ValueError(
                f"training.guided_attention.weight={self.weight} must be a number of at least 0"
            )
        if self.alignments is not None and not self.alignments.strip():
            raise ValueError(
                f"training.guided_attention.alignments={self.alignments!r} must be a path; give "
                "one, or null for the links that the corpus itself has"
            )


@dataclass(kw_only=True, slots=True)
class ValidationConfig:
    """When to validate, and what follows from it."""

    every_updates: int | None
    """None validates at the end of every epoch."""
    metric: Metric
    patience: int | None
    """Stop after so many validations without a best; None never does."""
    keep_best: int
    """So many best checkpoints stay, as step-<n>.pt beside best.pt where more than one."""
    num_samples: int
    """Translations and attention maps of so many sentences go to TensorBoard."""
    batch_size: int
    """Sentences translated at once."""

    def __post_init__(self) -> None:
        if self.every_updates is not None:
            check_positive("training.validation", self, "every_updates")
        if self.patience is not None:
            check_positive("training.validation", self, "patience")
        check_positive("training.validation", self, "keep_best", "batch_size")
        if self.num_samples < 0:
            raise ValueError(
                f"training.validation.num_samples={self.num_samples} must be at least 0"
            )


@dataclass(kw_only=True, slots=True)
class TrainingConfig:
    """How a model is trained; the budget that is used up first ends the training."""

    name: str
    max_epochs: int | None
    max_updates: int | None
    max_minutes: float | None
    """Of training and validation; a resumed run counts on."""
    batching: BatchingConfig
    accumulation: int
    """So many batches make one update."""
    label_smoothing: float
    guided_attention: GuidedAttentionConfig
    optimizer: OptimizerConfig
    schedule: ScheduleConfig
    teacher_forcing: TeacherForcingConfig
    validation: ValidationConfig
    precision: Precision
    kernels: Kernels
    """Plain: only torch's own operations, which are slower."""
    device: Device
    threads: int | None
    """Of the CPU; None leaves the choice to torch."""
    log_every: int
    """Updates between two points of the curves."""

    def __post_init__(self) -> None:
        budgets = (self.max_epochs, self.max_updates, self.max_minutes)
        if all(budget is None for budget in budgets):
            raise ValueError(
                "training needs a budget: set training.max_epochs, training.max_updates or "
                "training.max_minutes"
            )
        for key in ("max_epochs", "max_updates", "threads"):
            if getattr(self, key) is not None:
                check_positive("training", self, key)
        if self.max_minutes is not None and not 0 < self.max_minutes < math.inf:
            raise ValueError(f"training.max_minutes={self.max_minutes} must be above 0")
        check_positive("training", self, "accumulation", "log_every")
        check_probabilities("training", self, "label_smoothing")
        if self.precision is Precision.int8:
            raise ValueError(
                "training.precision=int8 has no gradients; choose auto, fp32, bf16 or fp16, and "
                "int8 when you translate"
            )
