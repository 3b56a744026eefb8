"""Train a translator, for example `train.py data=multi30k attention=dot`; -m sweeps."""

import logging
import sys
from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.experimental.callback import Callback
from hydra.types import RunMode
from omegaconf import DictConfig

from seq2seq.config import load_config, register_schemas, run_script
from seq2seq.training.leaderboard import format_leaderboard, record_failure, write_leaderboard
from seq2seq.training.run import run_training
from seq2seq.training.signals import Interrupted

logger = logging.getLogger("seq2seq.train")


@hydra.main(version_base="1.3", config_path="configs", config_name="train")
def main(composed: DictConfig) -> float | None:
    """Train once, or each job of a sweep; return test BLEU for a sweeper to optimise."""
    hydra_config = HydraConfig.get()
    if hydra_config.mode is not RunMode.MULTIRUN:
        config = load_config(composed)
        return run_training(config, Path(config.checkpoint_dir) / config.run_name)
    path = Path(hydra_config.runtime.output_dir)
    print(f"\n{path.name}: {' '.join(hydra_config.overrides.task)}", file=sys.stderr)
    try:
        return run_training(load_config(composed), path)
    except Exception as error:  # one job's failure must not end the others
        if isinstance(error, Interrupted):
            raise
        record_failure(path, error)
        print(f"{path.name} failed: {error}", file=sys.stderr)
        return None


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
    register_schemas()
    run_script(main)
