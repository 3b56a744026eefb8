"""How far a run has come: all that a resumed run needs beside weights and optimizer."""

from dataclasses import asdict, dataclass, field

from seq2seq.config.training import TrainingConfig
from seq2seq.training.updates import UpdateResult


@dataclass(kw_only=True, slots=True)
class Interval:
    """Sums since the last point of the curves."""

    updates: int = 0
    target_tokens: int = 0
    cross_entropy: float = 0.0
    gradient_norm: float = 0.0
    guided_loss: float = 0.0
    num_guided: int = 0
    seconds: float = 0.0


@dataclass(kw_only=True, slots=True)
class Progress:
    """Counters of a run, from its first update on."""

    update: int = 0
    """updates made"""
    epoch: int = 0
    """epochs finished"""
    updates_of_epoch: int = 0
    """updates made in the epoch that is under way"""
    epoch_share: float = 0.0
    """of the epoch that is under way"""
    target_tokens: int = 0
    seconds: float = 0.0
    """of training and validation"""
    update_seconds: float = 0.0
    """of training alone"""
    plateaus: int = 0
    """times that validation stood still long enough to lower the learning rate"""
    since_best: int = 0
    """validations since the best one"""
    best: list[tuple[float, int]] = field(default_factory=list)
    """(value, update) of the checkpoints that are kept, the best first"""
    validated_update: int = 0
    """the update after which validation last ran"""
    interval: Interval = field(default_factory=Interval)

    @property
    def best_update(self) -> int:
        """Return the update whose checkpoint is the best."""
        return self.best[0][1]

    def share(self, config: TrainingConfig) -> float:
        """Return the share of the budget that is used up, 0 to 1."""
        shares = [0.0]
        if config.max_epochs is not None:
            shares.append((self.epoch + self.epoch_share) / config.max_epochs)
        if config.max_updates is not None:
            shares.append(self.update / config.max_updates)
        if config.max_minutes is not None:
            shares.append(self.seconds / 60 / config.max_minutes)
        return min(max(shares), 1.0)

    def is_finished(self, config: TrainingConfig) -> bool:
        """Say whether the budget is used up or validation stood still for too long."""
        patience = config.validation.patience
        return self.share(config) >= 1 or (patience is not None and self.since_best >= patience)

    def count_update(
        self, result: UpdateResult, *, num_tokens: int, seconds: float, updates_per_epoch: int
    ) -> None:
        """Note an update."""
        self.update += 1
        self.updates_of_epoch += 1
        if self.updates_of_epoch == updates_per_epoch:
            self.epoch, self.updates_of_epoch = self.epoch + 1, 0
        self.epoch_share = self.updates_of_epoch / updates_per_epoch
        self.target_tokens += num_tokens
        self.update_seconds += seconds
        self.interval.updates += 1
        self.interval.target_tokens += num_tokens
        self.interval.cross_entropy += result.cross_entropy
        self.interval.gradient_norm += result.gradient_norm
        self.interval.guided_loss += result.guided_loss
        self.interval.num_guided += result.num_guided
        self.interval.seconds += seconds

    def count_validation(self, value: float, config: TrainingConfig) -> list[int]:
        """Note a validation; return the updates whose checkpoints are no longer among the best.

        Args:
            value: of the model; higher is better.
            config: how many are kept, and when a plateau is one.
        """
        self.validated_update = self.update
        is_best = not self.best or value > self.best[0][0]
        self.since_best = 0 if is_best else self.since_best + 1
        if self.since_best and self.since_best % config.schedule.plateau_patience == 0:
            self.plateaus += 1
        ranked = sorted([*self.best, (value, self.update)], key=lambda kept: -kept[0])
        self.best = ranked[: config.validation.keep_best]
        return [update for _, update in ranked[config.validation.keep_best :]]

    def to_dict(self) -> dict[str, object]:
        """Return plain types, for a checkpoint."""
        return asdict(self)

    @staticmethod
    def from_dict(content: dict[str, object]) -> "Progress":
        """Undo `to_dict`."""
        interval = Interval(**content["interval"])  # type: ignore[arg-type]
        return Progress(**{**content, "interval": interval})  # type: ignore[arg-type]
