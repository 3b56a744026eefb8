"""The training configuration: budget, optimizer, schedules, validation."""

from dataclasses import dataclass
from enum import Enum
from typing import Annotated

from seq2seq.checks import (
    Config,
    Count,
    FilePath,
    Mark,
    OneOf,
    Positive,
    Probability,
    Range,
    Threads,
    Weight,
)
from seq2seq.data.batching import BatchingConfig
from seq2seq.evaluation.metrics import AUTO, CHOICES
from seq2seq.kernels import Kernels
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


class OnOutOfMemory(Enum):
    """Reaction of training to a batch that does not fit into the memory of a GPU."""

    stop = "stop"
    """End the training with an error; last.pt has not changed."""
    skip = "skip"
    """Make no update of this batch, and go on with the next one."""


@dataclass(kw_only=True, slots=True, repr=False)
class OptimizerConfig(Config, section="training.optimizer", marks=(Mark.named,)):
    """Optimizer, highest learning rate and gradient clipping."""

    name: Annotated[OptimizerName, Mark.fixed]
    """Rule of the updates."""
    learning_rate: Positive
    """Highest learning rate of the schedule."""
    weight_decay: Weight
    """Factor of the weight decay; adam and sgd add it to the gradient as an L2 penalty."""
    clip_norm: Weight
    """Largest gradient norm; longer gradients are scaled down, 0 disables clipping."""


@dataclass(kw_only=True, slots=True, repr=False)
class ScheduleConfig(Config, section="training.schedule", marks=(Mark.named,)):
    """The schedule of the learning rate."""

    name: ScheduleName
    """Course of the learning rate after warm-up."""
    warmup_updates: Annotated[int, Range(0)]
    """Updates in which the rate rises linearly from 0."""
    minimum_ratio: Probability
    """Lowest rate of cosine and plateau, as a share of the highest."""
    plateau_factor: Probability
    """Factor of the rate at each plateau."""
    plateau_patience: Count
    """Validations without a new best that make a plateau."""


@dataclass(kw_only=True, slots=True, repr=False)
class TeacherForcingConfig(Config, section="training.teacher_forcing", marks=(Mark.named,)):
    """The share of steps that get the true previous token instead of the predicted one."""

    unit: TeacherForcingUnit
    """Whether it is drawn for each token or for each batch."""
    schedule: TeacherForcingSchedule
    """Course of the share from `start` to `end`."""
    start: Annotated[float, Range(0, 1)]
    """Share of true previous tokens at the beginning."""
    end: Annotated[float, Range(0, 1)]
    """Share of true previous tokens at the end."""
    updates: Count
    """Updates that the schedule takes from start to end."""


@dataclass(kw_only=True, slots=True, repr=False)
class GuidedAttentionConfig(
    Config, section="training.guided_attention", marks=(Mark.named, Mark.data)
):
    """A second loss that trains attention to follow alignments of the training text."""

    weight: Weight
    """Weight of this loss relative to the translation loss; 0 disables it."""
    # A fingerprint covers the content of the file.
    alignments: Annotated[FilePath | None, Mark.free, Mark.data]
    """File of Pharaoh text, parallel to the training files; None uses the links of the corpus."""


@dataclass(kw_only=True, slots=True, repr=False)
class ValidationConfig(Config, section="training.validation", marks=(Mark.named,)):
    """Intervals of validation, and the use of its results."""

    every_updates: Count | None
    """Updates between validations; None validates at the end of every epoch."""
    metric: Annotated[Metric, Mark.named, Mark.scores]
    """Metric of the best checkpoint."""
    patience: Count | None
    """Validations without an improvement after which training stops; None never stops it."""
    keep_best: Count
    """Number of best checkpoints to keep; if more than one, as step-<n>.pt beside best.pt."""
    num_samples: Annotated[int, Range(0), Mark.free]
    """Number of sentences whose translations and attention maps go to TensorBoard."""
    batch_size: Annotated[Count, Mark.free]
    """Sentences translated together."""
    bleu_tokenize: Annotated[str, OneOf(CHOICES), Mark.named, Mark.scores] = AUTO
    """sacreBLEU's tokenizer for BLEU, in validation and results; auto: by the target language."""
    lowercase: Annotated[bool | None, Mark.named, Mark.scores] = None
    """Ignore the case of letters in BLEU and chrF; None: if the tokenizer makes text lower case."""


@dataclass(kw_only=True, slots=True, repr=False)
class TrainingConfig(Config, section="training", marks=(Mark.named,)):
    """The training configuration; training ends when the first budget is used up."""

    name: str
    """Name of the file of values."""
    max_epochs: Annotated[Count | None, Mark.free]
    """Most passes over the training text."""
    max_updates: Annotated[Count | None, Mark.free]
    """Most updates of the weights."""
    max_minutes: Annotated[Positive | None, Mark.free]
    """Minutes of training and validation, summed over resumed runs."""
    batching: BatchingConfig
    accumulation: Count
    """Batches per update."""
    label_smoothing: Probability
    """Share of the probability that the loss spreads over all tokens."""
    guided_attention: GuidedAttentionConfig
    optimizer: OptimizerConfig
    schedule: ScheduleConfig
    teacher_forcing: TeacherForcingConfig
    validation: ValidationConfig
    precision: Precision
    """Type of matrix products; auto: bf16 where that is fast."""
    kernels: Kernels
    device: Annotated[Device, Mark.free]
    """Device that trains; auto: CUDA if there is one."""
    threads: Annotated[Threads | None, Mark.free]
    """CPU threads; None uses torch's default."""
    log_every: Annotated[Count, Mark.free]
    """Updates between two points of the TensorBoard curves."""
    # Off, or the usual value, unless they are given.
    ema_decay: Annotated[Probability | None, Mark.fixed] = None
    """Decay of the moving average of the weights that is validated and kept; None: no average."""
    freeze_embeddings: Annotated[bool, Mark.fixed] = False
    """Exclude the embeddings, and an output matrix tied to them, from training."""
    average_best: bool = False
    """Average the `validation.keep_best` best checkpoints at the end; best.pt if that is better."""
    r_drop: Weight = 0.0
    """Weight of the divergence between two passes with different dropout; 0: one pass."""
    save_every_minutes: Annotated[Positive | None, Mark.free] = None
    """Minutes between saves of last.pt besides those of validations; None: no others."""
    coverage_loss: Weight = 0.0
    """Weight of the attention to source tokens that were attended before; 0 disables this loss."""
    on_out_of_memory: OnOutOfMemory = OnOutOfMemory.stop
    """Stop, or skip the update, when the memory of a GPU is too small for a batch."""

    def __post_init__(self) -> None:
        Config.__post_init__(self)
        budgets = (self.max_epochs, self.max_updates, self.max_minutes)
        if all(budget is None for budget in budgets):
            raise ValueError(
                "training needs a budget: set training.max_epochs, training.max_updates or "
                "training.max_minutes"
            )
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
