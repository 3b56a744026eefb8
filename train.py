"""Train a translator, for example `train.py data=multi30k attention=dot`; -m sweeps."""

import shlex
import sys
import traceback
from dataclasses import replace
from pathlib import Path

from seq2seq.runtime.interrupts import interrupts_in_one_line

with interrupts_in_one_line():  # these take long enough to think better of it
    import hydra
    from hydra.core.hydra_config import HydraConfig
    from hydra.experimental.callback import Callback
    from hydra.types import RunMode
    from omegaconf import DictConfig

    from seq2seq.cli.leaderboard import format_leaderboard, record_failure, write_leaderboard
    from seq2seq.config.errors import USER_ERRORS, describe_error, one_line_errors, run_script
    from seq2seq.config.schema import load_config, register_schemas
    from seq2seq.runtime.allocator import keep_freed_memory
    from seq2seq.runtime.signals import Interrupted
    from seq2seq.training.run import run_training
    from seq2seq.training.run_directory import RunDirectory


@hydra.main(version_base="1.3", config_path="configs", config_name="train")
@one_line_errors
def main(composed: DictConfig) -> float | None:
    """Train once, or each job of a sweep; return test BLEU for a sweeper to optimise."""
    hydra_config = HydraConfig.get()
    try:
        if hydra_config.mode is RunMode.MULTIRUN:
            return _run_job(composed, Path(hydra_config.runtime.output_dir))
        config = load_config(composed)
        return run_training(config, Path(config.checkpoint_dir) / config.run_name)
    except Interrupted as stop:
        print(f"stopped: {stop}; go on with: {_resume_command()}", file=sys.stderr)
        sys.exit(stop.exit_code)


def _run_job(composed: DictConfig, path: Path) -> float | None:
    """Train one job of a sweep; its failure does not end the others."""
    print(f"\n{path.name}: {' '.join(HydraConfig.get().overrides.task)}", file=sys.stderr)
    try:
        config = load_config(composed)
        # A sweep that is resumed goes on where a job was begun and starts the others.
        resume = config.resume and RunDirectory(path).holds_run
        return run_training(replace(config, resume=resume), path)
    except Interrupted:
        raise
    except Exception as error:
        if not isinstance(error, USER_ERRORS):
            traceback.print_exc()
        reason = describe_error(error)
        record_failure(path, reason)
        print(f"{path.name} failed: {reason}", file=sys.stderr)
        return None


def _resume_command() -> str:
    """Return what continues the run that was stopped, in a sweep that job alone."""
    hydra_config = HydraConfig.get()
    overrides = list(hydra_config.overrides.task)
    if hydra_config.mode is RunMode.MULTIRUN:
        path = Path(hydra_config.runtime.output_dir)
        overrides += [f"checkpoint_dir={path.parent}", f"run_name={path.name}"]
    kept = [each for each in overrides if not each.startswith(("resume=", "overwrite="))]
    return shlex.join(["python", "train.py", *kept, "resume=true"])


class SweepSummary(Callback):
    """Compares the runs of a sweep when all have ended."""

    def on_multirun_end(self, config: DictConfig, **_: object) -> None:
        """Write the leaderboard; exit with 1 where a run failed."""
        sweep = Path(config.hydra.sweep.dir)
        rows = write_leaderboard(sweep)
        print(f"\n{format_leaderboard(rows)}\n\n{sweep}/leaderboard.csv", file=sys.stderr)
        if any(row.failure is not None for row in rows):
            sys.exit(1)


if __name__ == "__main__":
    keep_freed_memory()
    register_schemas()
    run_script(main)
