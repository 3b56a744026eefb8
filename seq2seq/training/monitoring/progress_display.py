"""Show how far a run is, by a bar or a line every 30 seconds, and estimate when it will end."""

import logging
import time
from datetime import datetime, timedelta

from seq2seq.config.training import TrainingConfig
from seq2seq.training.monitoring.logger import progress_bar
from seq2seq.training.progress import Progress

logger = logging.getLogger(__name__)

BAR_SECONDS, LINE_SECONDS = 2.0, 30.0
"""Seconds between two states of the bar, and between two lines."""
ESTIMATE_UPDATES, ESTIMATE_SECONDS = 50, 20.0
"""Updates, or seconds of updates, after which the length of an epoch is estimated."""


class ProgressDisplay:
    """Shows the progress of a run while it is open, and logs once how long an epoch takes."""

    def __init__(self, config: TrainingConfig, progress: Progress, *, quiet: bool) -> None:
        """Begin with the progress of a new or a resumed run; a quiet display shows nothing."""
        self._config = config
        self._is_quiet = quiet
        self._bar = progress_bar(_percentage(progress.share(config)), quiet=quiet)
        self._has_estimate = quiet
        self._start: tuple[int, float] | None = None  # updates and seconds after the first update
        self._began = (time.monotonic(), progress.share(config))
        self._shown_at = time.monotonic()
        self._shown_counts = (progress.target_tokens, progress.update_seconds)
        self._counted = progress.interval.cross_entropy
        self._num_skipped = progress.skipped_updates
        self._cross_entropy = 0.0

    def __enter__(self) -> "ProgressDisplay":
        return self

    def __exit__(self, *exception: object) -> None:
        self._bar.close()

    def update(self, progress: Progress, *, updates_per_epoch: int) -> None:
        """Count an update and show the progress if it is time to.

        Args:
            progress: The progress after the update, before its interval begins anew.
            updates_per_epoch: Number of updates in the current epoch.
        """
        if self._is_quiet or progress.skipped_updates > self._num_skipped:
            self._num_skipped = progress.skipped_updates
            return
        interval = progress.interval
        if interval.updates == 1:
            self._counted = 0.0
        self._cross_entropy += interval.cross_entropy - self._counted
        self._counted = interval.cross_entropy
        self._estimate(progress, updates_per_epoch)
        seconds = LINE_SECONDS if self._bar.disable else BAR_SECONDS
        if time.monotonic() - self._shown_at >= seconds:
            self._show(progress)

    def _show(self, progress: Progress) -> None:
        """Show the progress, with the loss and the speed since the last time."""
        tokens, seconds = self._shown_counts
        num_tokens = progress.target_tokens - tokens
        loss = self._cross_entropy / num_tokens
        speed = num_tokens / max(progress.update_seconds - seconds, 1e-9)
        share = progress.share(self._config)
        self._bar.set_postfix_str(f"loss {loss:.3f}, {speed:.0f} tokens/s", refresh=False)
        self._bar.update(_percentage(share) - self._bar.n)
        if self._bar.disable:
            epoch = progress.epoch + progress.epoch_share
            began, first_share = self._began
            left = (time.monotonic() - began) * (1 - share) / max(share - first_share, 1e-9)
            logger.info(
                "training %.0f%%: update %d, epoch %.1f, loss %.3f, %.0f tokens/s, %s left",
                100 * share,
                progress.update,
                epoch,
                loss,
                speed,
                describe_seconds(left),
            )
        self._shown_at, self._cross_entropy = time.monotonic(), 0.0
        self._shown_counts = (progress.target_tokens, progress.update_seconds)

    def _estimate(self, progress: Progress, updates_per_epoch: int) -> None:
        """Log once when the run will end, as soon as enough updates were measured."""
        if self._has_estimate:
            return
        if self._start is None:  # the first update is slower than the others
            self._start = (progress.update, progress.update_seconds)
            return
        updates = progress.update - self._start[0]
        seconds = progress.update_seconds - self._start[1]
        if updates >= ESTIMATE_UPDATES or seconds >= ESTIMATE_SECONDS:
            self._has_estimate = True
            estimate = describe_estimate(
                self._config,
                progress,
                seconds_per_update=seconds / updates,
                updates_per_epoch=updates_per_epoch,
                now=datetime.now(),
            )
            logger.info("%s", estimate)


def describe_estimate(
    config: TrainingConfig,
    progress: Progress,
    *,
    seconds_per_update: float,
    updates_per_epoch: int,
    now: datetime,
) -> str:
    """Return one line with the length of an epoch and the end of the run.

    The end is that of the budget which is used up first. Validation counts for `max_minutes` only,
    since its time is not known yet.
    """
    epoch_seconds = seconds_per_update * updates_per_epoch
    ends: list[tuple[float, str]] = []  # seconds from now, and the name of the budget
    if config.max_epochs is not None:
        epochs = config.max_epochs - progress.epoch - progress.epoch_share
        ends.append((epochs * epoch_seconds, _count(config.max_epochs, "epoch")))
    if config.max_updates is not None:
        updates = config.max_updates - progress.update
        ends.append((updates * seconds_per_update, _count(config.max_updates, "update")))
    if config.max_minutes is not None:
        seconds = 60 * config.max_minutes - progress.seconds
        ends.append((seconds, f"training.max_minutes={config.max_minutes:g}"))
    epoch = f"an epoch takes about {describe_seconds(epoch_seconds)}, without validation"
    left, name = min(ends)
    verb = "ends" if name.startswith(("1 ", "training.")) else "end"
    try:
        end = now + timedelta(seconds=max(left, 0.0))
    except OverflowError:  # a budget that stands for no limit
        return f"{epoch}; {name} {verb} after the year {datetime.max.year}"
    clock = end.strftime("%H:%M" if end.date() == now.date() else "%H:%M on %Y-%m-%d")
    return f"{epoch}; {name} {verb} at about {clock}"


def describe_seconds(seconds: float) -> str:
    """Return a length of time in words, in seconds, minutes or hours."""
    if seconds < 90:
        return _count(round(seconds), "second")
    return f"{seconds / 60:.1f} minutes" if seconds < 90 * 60 else f"{seconds / 3600:.1f} hours"


def _percentage(share: float) -> float:
    return round(100 * share, 1)


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
