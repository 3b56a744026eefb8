"""Show how far a run is, by a bar or a line every 30 seconds, and estimate when it will end."""

import copy
import logging
import time
from datetime import datetime, timedelta

from seq2seq.config.schema import TrainingConfig
from seq2seq.training.monitoring.log import progress_bar
from seq2seq.training.progress import Progress

logger = logging.getLogger(__name__)

BAR_SECONDS, LINE_SECONDS = 2.0, 30.0
"""Seconds between two states of the bar, and between two lines."""
_LONGEST = 1e10
"""Seconds to the end of a run at most: a date has no year 10000."""
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
        self._first: Progress | None = None  # after the first update
        self._began_at = self._shown_at = time.monotonic()
        self._began = self._shown = copy.copy(progress)

    def __enter__(self) -> "ProgressDisplay":
        return self

    def __exit__(self, *exception: object) -> None:
        self._bar.close()

    def update(self, progress: Progress) -> None:
        """Show the progress after an update, if it is time to."""
        if self._is_quiet:
            return
        self._estimate(progress)
        seconds = LINE_SECONDS if self._bar.disable else BAR_SECONDS
        is_new = progress.target_tokens > self._shown.target_tokens  # not if all were skipped
        now = time.monotonic()
        if is_new and now - self._shown_at >= seconds:
            self._show(progress, now)

    def _show(self, progress: Progress, now: float) -> None:
        """Show the progress, with the loss and the speed since the last time."""
        before, self._shown = self._shown, copy.copy(progress)
        num_tokens = progress.target_tokens - before.target_tokens
        loss = (progress.cross_entropy - before.cross_entropy) / num_tokens
        speed = num_tokens / max(progress.update_seconds - before.update_seconds, 1e-9)
        share = progress.share(self._config)
        self._bar.set_postfix_str(f"loss {loss:.3f}, {speed:.0f} tokens/s", refresh=False)
        self._bar.update(_percentage(share) - self._bar.n)
        if self._bar.disable:
            epoch = progress.epoch + progress.epoch_share
            done = share - self._began.share(self._config)
            left = (now - self._began_at) * (1 - share) / max(done, 1e-9)
            logger.info(
                "training %.0f%%: update %d, epoch %.1f, loss %.3f, %.0f tokens/s, %s left",
                100 * share,
                progress.update,
                epoch,
                loss,
                speed,
                describe_seconds(left),
            )
        self._shown_at = now

    def _estimate(self, progress: Progress) -> None:
        """Log once when the run will end, as soon as enough updates were measured."""
        if self._has_estimate:
            return
        if self._first is None:  # it is slower than the others
            self._first = copy.copy(progress)
            return
        updates = progress.update - self._first.update
        seconds = progress.update_seconds - self._first.update_seconds
        if updates >= ESTIMATE_UPDATES or seconds >= ESTIMATE_SECONDS:
            self._has_estimate = True
            estimate = describe_estimate(
                self._config,
                progress,
                seconds_per_update=seconds / updates,
                now=datetime.now(),
            )
            logger.info("%s", estimate)


def describe_estimate(
    config: TrainingConfig,
    progress: Progress,
    *,
    seconds_per_update: float,
    now: datetime,
) -> str:
    """Return one line with the length of an epoch and the end of the run.

    The end is that of the budget which is used up first. Validation counts for `max_minutes` only,
    since its time is not known yet.
    """
    epoch_seconds = seconds_per_update * progress.updates_per_epoch
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
    end = now + timedelta(seconds=min(max(left, 0.0), _LONGEST))
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
