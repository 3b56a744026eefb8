"""Train a translator, for example `train.py data=multi30k attention=dot`; `-m` sweeps."""

import os
import shlex
import sys
from dataclasses import replace
from pathlib import Path

from seq2seq.runtime.process import Interrupted, imports_in_one_line

with imports_in_one_line():
    import hydra
    from hydra.core.hydra_config import HydraConfig
    from hydra.types import RunMode
    from omegaconf import DictConfig

    from seq2seq.cli.command_line import (
        command,
        next_steps,
        one_line_errors,
        read_arguments,
        relative,
        run_script,
    )
    from seq2seq.cli.sweep import launched_job, run_job, stopped_sweeps_in_one_line
    from seq2seq.config.composition import (
        check_repeated_keys,
        config_directory,
        quote_where_needed,
        to_dataclass,
    )
    from seq2seq.config.plugins import load_plugins, load_plugins_of
    from seq2seq.config.schema import TrainConfig, register_schemas
    from seq2seq.files.paths import expand_home
    from seq2seq.runtime.process import keep_freed_memory
    from seq2seq.runtime.torchrun import is_first_process
    from seq2seq.training.run import run_training
    from seq2seq.training.validation import metric_value


def main() -> None:
    """Run the command with the arguments of this process."""
    keep_freed_memory()
    if any(each.partition("=")[0] in ("--cfg", "-c") for each in sys.argv[1:]):
        print("meaning and range of each key: python -m seq2seq.cli.keys", file=sys.stderr)
    run_script(_load_and_train)


def _load_and_train() -> None:
    read_arguments()
    check_repeated_keys(sys.argv[1:])
    load_plugins_of(sys.argv[1:])
    register_schemas()
    with stopped_sweeps_in_one_line():
        _train()


@hydra.main(version_base="1.3", config_path=str(config_directory()), config_name="train")
@one_line_errors
def _train(composed: DictConfig) -> float | None:
    """Train once, or one job of a sweep; return the value for a sweeper to maximise."""
    hydra_config = HydraConfig.get()
    load_plugins(composed.plugins)  # a launcher's process has not read the command line
    try:
        if hydra_config.mode is RunMode.MULTIRUN:
            path = Path(hydra_config.runtime.output_dir)
            with launched_job(path.name):
                return run_job(path, lambda: _train_job(to_dataclass(composed, TrainConfig), path))
        config = to_dataclass(composed, TrainConfig)
        parent = expand_home(config.checkpoint_dir, key="checkpoint_dir")
        return _train_into(config, parent / config.run_name)
    except Interrupted as stop:
        if is_first_process():
            print(f"stopped: {stop}; continue with: {_resume_command()}", file=sys.stderr)
        sys.exit(stop.exit_code)


def _train_job(config: TrainConfig, path: Path) -> float:
    # A resumed sweep continues the jobs that were begun and starts the others.
    return _train_into(replace(config, resume="auto" if config.resume else False), path)


def _train_into(config: TrainConfig, path: Path) -> float:
    """Train; return the value by which the best checkpoint was chosen on the validation set.

    A sweeper that saw test scores would fit the configuration to the test set.
    """
    valid = run_training(config, path, next_steps=next_steps(config, path)).valid
    return metric_value(valid, config.training.validation.metric)


def _resume_command() -> str:
    """Return the command that continues the run or the sweep; in a launched process, its job."""
    hydra_config = HydraConfig.get()
    given, resume = list(hydra_config.overrides.task), "resume=true"
    places: dict[str, str] = {}
    if hydra_config.mode is RunMode.MULTIRUN:
        path = Path(hydra_config.runtime.output_dir)
        places = {"checkpoint_dir": str(path.parent), "run_name": path.name}
        if str(hydra_config.runtime.choices["hydra/launcher"]) == "basic":
            given, resume = sys.argv[1:], "resume=auto"
            places = {"hydra.sweep.dir": str(hydra_config.sweep.dir)}
    replaced = tuple(f"{key}=" for key in ("resume", "overwrite", *places))
    kept = [each for each in given if not each.startswith(replaced)]
    kept += [f"{key}={quote_where_needed(value)}" for key, value in places.items()]
    return shlex.join([*_own_command(), *kept, resume])


def _own_command() -> list[str]:
    """Return how this process was started; under torchrun, how all processes were."""
    if not (num_processes := os.environ.get("LOCAL_WORLD_SIZE")):
        return command("train")
    torchrun = relative(Path(sys.executable).with_name("torchrun"))
    options = [f"--nproc-per-node={num_processes}"]
    if (num_machines := os.environ.get("GROUP_WORLD_SIZE", "1")) != "1":
        address = os.environ.get("MASTER_ADDR", "HOST")
        rendezvous = ["--rdzv-backend=c10d", f"--rdzv-endpoint={address}:29500"]
        options = [f"--nnodes={num_machines}", *options, *rendezvous]
    return [torchrun, *options, relative(Path(sys.argv[0]))]


if __name__ == "__main__":
    main()
