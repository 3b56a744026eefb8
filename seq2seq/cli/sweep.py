"""The jobs of a sweep and the summary at its end."""

import sys
import traceback
from collections.abc import Callable
from pathlib import Path

from hydra.core.hydra_config import HydraConfig
from hydra.experimental.callback import Callback
from omegaconf import DictConfig

from seq2seq.cli.leaderboard import format_leaderboard, record_failure, write_leaderboard
from seq2seq.config.errors import USER_ERRORS, describe_error
from seq2seq.runtime.interrupts import Interrupted


def run_job(path: Path, train: Callable[[], float]) -> float | None:
    """Train one job; a failure is recorded in its directory and does not end the sweep."""
    print(f"\n{path.name}: {' '.join(HydraConfig.get().overrides.task)}", file=sys.stderr)
    try:
        return train()
    except Interrupted:
        raise
    except Exception as error:
        if not isinstance(error, USER_ERRORS):
            traceback.print_exc()
        reason = describe_error(error)
        record_failure(path, reason)
        print(f"{path.name} failed: {reason}", file=sys.stderr)
        return None


class SweepSummary(Callback):
    """Compare the runs of a sweep when all have ended."""

    def on_multirun_end(self, config: DictConfig, **_: object) -> None:
        """Write the leaderboard; exit with 1 if a run failed."""
        sweep = Path(config.hydra.sweep.dir)
        rows = write_leaderboard(sweep)
        print(f"\n{format_leaderboard(rows)}\n\n{sweep}/leaderboard.csv", file=sys.stderr)
        if any(row.failure is not None for row in rows):
            sys.exit(1)
