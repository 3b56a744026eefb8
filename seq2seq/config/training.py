"""The training configuration: budget, optimizer, schedules, validation."""

import math
from dataclasses import dataclass
from enum import Enum

from seq2seq.checks import check_not_negative, check_positive, check_probabilities
from seq2seq.data.batching import BatchingConfig
from seq2seq.evaluation.bleu_tokenize import AUTO, check_bleu_tokenize
from seq2seq.kernels.switch import Kernels
from seq2seq.runtime.device_memory import OnOutOfMemory
from seq2seq.runtime.numerics import Device, Precision


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


class TeacherForcingUnit(Enum):
    """Whether scheduled sampling draws for each token or once for each batch."""

    token = "token"
    batch = "batch"


class TeacherForcingSchedule(Enum):
    """The course of the teacher forcing ratio from start to end."""

    constant = "constant"
    linear = "linear"
    exponential = "exponential"
    inverse_sigmoid = "inverse_sigmoid"


class Metric(Enum):
    """The validation metric that chooses the best checkpoint."""

    bleu = "bleu"
    chrf = "chrf"
    loss = "loss"


@dataclass(kw_only=True, slots=True)
class OptimizerConfig:
    """Optimizer, highest learning rate and gradient clipping."""

    name: OptimizerName
    learning_rate: float
    """Highest learning rate of the schedule."""
    weight_decay: float
    clip_norm: float
    """Largest gradient norm; longer gradients are scaled down, 0 disables clipping."""

    def __post_init__(self) -> None:
        if not 0 < self.learning_rate < math.inf:
            raise ValueError(
                f"training.optimizer.learning_rate={self.learning_rate} must be a finite number "
                "above 0"
            )
        check_not_negative("training.optimizer", self, "weight_decay", "clip_norm")


@dataclass(kw_only=True, slots=True)
class ScheduleConfig:
    """The schedule of the learning rate."""

    name: ScheduleName
    warmup_updates: int
    """Updates in which the rate rises linearly from 0."""
    minimum_ratio: float
    """Lowest rate of cosine and plateau, as a share of the highest."""
    plateau_factor: float
    """Factor of the rate at each plateau."""
    plateau_patience: int
    """Validations without a new best that make a plateau."""

    def __post_init__(self) -> None:
        check_not_negative("training.schedule", self, "warmup_updates")
        check_probabilities("training.schedule", self, "minimum_ratio", "plateau_factor")
        check_positive("training.schedule", self, "plateau_patience")


@dataclass(kw_only=True, slots=True)
class TeacherForcingConfig:
    """The share of steps that get the true previous token instead of the predicted one."""

    unit: TeacherForcingUnit
    schedule: TeacherForcingSchedule
    start: float
    end: float
    updates: int
    """Updates that the schedule takes from start to end."""

    def __post_init__(self) -> None:
        for key in ("start", "end"):
            if not 0 <= getattr(self, key) <= 1:
                raise ValueError(
                    f"training.teacher_forcing.{key}={getattr(self, key)} must lie in [0, 1]"
                )
        check_positive("training.teacher_forcing", self, "updates")


@dataclass(kw_only=True, slots=True)
class GuidedAttentionConfig:
    """A second loss that trains attention to follow alignments of the training text."""

    weight: float
    """Weight of this loss relative to the translation loss; 0 disables it."""
    alignments: str | None
    """File of Pharaoh text, parallel to the training files; None uses the links of the corpus."""

    def __post_init__(self) -> None:
        check_not_negative("training.guided_attention", self, "weight")
        if self.alignments is not None and not self.alignments.strip():
            raise ValueError(
                f"training.guided_attention.alignments={self.alignments!r} must be a path; give "
                "one, or null to use the links of the corpus"
            )


@dataclass(kw_only=True, slots=True)
class ValidationConfig:
    """Intervals of validation, and the use of its results."""

    every_updates: int | None
    """Updates between validations; None validates at the end of every epoch."""
    metric: Metric
    """Metric of the best checkpoint."""
    patience: int | None
    """Validations without an improvement after which training stops; None never stops it."""
    keep_best: int
    """Number of best checkpoints to keep; if more than one, as step-<n>.pt beside best.pt."""
    num_samples: int
    """Number of sentences whose translations and attention maps go to TensorBoard."""
    batch_size: int
    """Sentences translated together."""
    bleu_tokenize: str = AUTO
    """sacreBLEU's tokenizer for BLEU, in validation and results; auto: by the target language."""
    lowercase: bool | None = None
    """Ignore the case of letters in BLEU and chrF; None: if the tokenizer makes text lower case."""

    def __post_init__(self) -> None:
        check_bleu_tokenize(self.bleu_tokenize, key="training.validation.bleu_tokenize")
        counts = ("every_updates", "patience", "keep_best", "batch_size")
        check_positive("training.validation", self, *counts)
        check_not_negative("training.validation", self, "num_samples")


@dataclass(kw_only=True, slots=True)
class TrainingConfig:
    """The training configuration; training ends when the first budget is used up."""

    name: str
    max_epochs: int | None
    max_updates: int | None
    max_minutes: float | None
    """Minutes of training and validation, summed over resumed runs."""
    batching: BatchingConfig
    accumulation: int
    """Batches per update."""
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
    """CPU threads; None uses torch's default."""
    log_every: int
    """Updates between two points of the TensorBoard curves."""
    # Defaults are also the values of checkpoints that were written before their keys existed.
    ema_decay: float | None = None
    """Decay of the moving average of the weights that is validated and kept; None: no average."""
    freeze_embeddings: bool = False
    """Exclude the embeddings, and an output matrix tied to them, from training."""
    average_best: bool = False
    """Average the `validation.keep_best` best checkpoints at the end; best.pt if that is better."""
    r_drop: float = 0.0
    """Weight of the divergence between two passes with different dropout; 0: one pass."""
    save_every_minutes: float | None = None
    """Minutes between saves of last.pt besides those of validations; None: no others."""
    coverage_loss: float = 0.0
    """Weight of the attention to source tokens that were attended before; 0 disables this loss."""
    on_out_of_memory: OnOutOfMemory = OnOutOfMemory.stop
    """Stop, or skip the update, when the memory of a GPU is too small for a batch."""

    def __post_init__(self) -> None:
        budgets = (self.max_epochs, self.max_updates, self.max_minutes)
        if all(budget is None for budget in budgets):
            raise ValueError(
                "training needs a budget: set training.max_epochs, training.max_updates or "
                "training.max_minutes"
            )
        for key in ("max_minutes", "save_every_minutes"):
            if getattr(self, key) is not None and not 0 < getattr(self, key) < math.inf:
                value = getattr(self, key)
                raise ValueError(f"training.{key}={value} must be a finite number above 0")
        counts = ("max_epochs", "max_updates", "accumulation", "threads", "log_every")
        check_positive("training", self, *counts)
        check_probabilities("training", self, "label_smoothing", "ema_decay")
        check_not_negative("training", self, "r_drop", "coverage_loss")
        if self.average_best and self.validation.keep_best == 1:
            raise ValueError(
                "training.average_best=true averages the best checkpoints, but "
                "training.validation.keep_best=1 keeps one; keep several, for example 5"
            )
        if self.precision is Precision.int8:
            raise ValueError(
                "training.precision=int8 has no gradients; choose auto, fp32, bf16 or fp16, and "
                "use int8 only to translate"
            )
