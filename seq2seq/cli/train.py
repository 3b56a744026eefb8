"""Train a translator, for example `train.py data=multi30k attention=dot`; `-m` runs a sweep."""

import argparse
import gc
import os
import re
import shlex
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from seq2seq.runtime.process import Interrupted, imports_in_one_line

with imports_in_one_line():
    import hydra
    from hydra._internal.utils import get_args_parser
    from hydra.core.hydra_config import HydraConfig
    from hydra.core.override_parser.overrides_parser import OverridesParser
    from hydra.types import RunMode
    from omegaconf import DictConfig, OmegaConf

    from seq2seq.checks import field_types
    from seq2seq.cli.command_line import errors_in_one_line
    from seq2seq.cli.sweep import launched_job, run_job, stopped_sweeps_in_one_line
    from seq2seq.config.composition import config_directory, to_dataclass
    from seq2seq.config.plugins import as_argument, load_plugins, load_plugins_of
    from seq2seq.config.schema import Metric, TrainConfig, config_groups, register_schemas
    from seq2seq.config.serialization import config_from_dict
    from seq2seq.data.tokenizers.sentencepiece import has_subwords
    from seq2seq.files.paths import expand_home, reading
    from seq2seq.inference.checkpoint import load_checkpoint
    from seq2seq.runtime.process import (
        interrupts_in_one_line,
        is_first_process,
        keep_freed_memory,
    )
    from seq2seq.training.run import run_training
    from seq2seq.training.validation import metric_value


_HYDRA_SETTINGS = [
    *("hydra.run.dir=.", "hydra.output_subdir=null"),
    *("hydra/job_logging=none", "hydra/hydra_logging=none"),
]
"""Settings for Hydra that train.yaml has and the config.yaml of a run lacks."""
_HELP = ["--cfg", "all", "--package", "hydra.help.template"]
"""Options that print the help. Hydra's own --help reads all schemas many times, for seconds."""


class _OneLineParser(argparse.ArgumentParser):
    """A parser that raises errors as ValueError, without the usage text."""

    def error(self, message: str) -> NoReturn:
        raise ValueError(f"{message}; --help shows the usage")


def main() -> None:
    """Run the command with the arguments of this process."""
    keep_freed_memory()
    os.environ["HYDRA_FULL_ERROR"] = "1"  # Hydra raises errors instead of printing them
    try:
        with errors_in_one_line(), interrupts_in_one_line(), stopped_sweeps_in_one_line():
            sys.argv[1:] = hydra_arguments(sys.argv[1:])
            load_plugins_of(sys.argv[1:])
            register_schemas()
            sys.argv[1:] = map(_with_quotes, sys.argv[1:])
            _run_hydra()
    finally:
        gc.freeze()  # see run_command


def hydra_arguments(arguments: Sequence[str]) -> list[str]:
    """Put Hydra's options before the keys, because its parser refuses keys around an option.

    With another YAML file, its directory and the settings that it may lack are added.

    Raises:
        ValueError: An option is unknown, for example a key with dashes.

    Example:
        >>> hydra_arguments(["seed=1,2", "-m", "attention=dot"])
        ['-m', 'seed=1,2', 'attention=dot']
        >>> hydra_arguments(["--seed", "3"])
        Traceback (most recent call last):
        ValueError: unknown option --seed; write keys as key=value; --help shows the usage
    """
    asks = {"-h": _HELP, "--help": _HELP}
    arguments = [part for each in arguments for part in asks.get(each, [each])]
    parser = _OneLineParser(parents=[get_args_parser()], add_help=False)
    parsed, unknown = parser.parse_known_intermixed_args(arguments)
    # argparse treats an option that contains a space as a key.
    unknown += [each for each in parsed.overrides if each.startswith("-")]
    if unknown:
        parser.error(f"unknown option {unknown[0]}; write keys as key=value")
    options = [each for each in arguments if each not in parsed.overrides]
    if parsed.config_path is not None:  # Hydra would search beside this module
        options += ["--config-path", str(Path(parsed.config_path).resolve())]
    has_other_file = parsed.config_path is not None or parsed.config_name is not None
    return [*options, *parsed.overrides, *(_HYDRA_SETTINGS if has_other_file else ())]


def _with_quotes(argument: str) -> str:
    """Put quotes around a text of the top level that Hydra would read as a number or truth value.

    Example:
        >>> _with_quotes("run_name=2026_11_27"), _with_quotes("seed=1_000")
        ("run_name='2026_11_27'", 'seed=1_000')
    """
    key, _, value = argument.partition("=")
    field_type = field_types(TrainConfig).get(key)
    if field_type is None or field_type.bases != (str,) or not re.fullmatch(r"[\w.+-]+", value):
        return argument
    read = OverridesParser.create().parse_override(argument).value()
    return argument if read is None or isinstance(read, str) else f"{key}='{value}'"


@hydra.main(version_base="1.3", config_path=str(config_directory()), config_name="train")
def _run_hydra(composed: DictConfig) -> float | None:
    # Hydra would print a line of its own for an exception, also in a launcher's processes.
    with errors_in_one_line(), interrupts_in_one_line():
        return _train(composed)


def _train(composed: DictConfig) -> float | None:
    """Train once, or train one job of a sweep; return the value for a sweeper to maximize."""
    hydra_config = HydraConfig.get()
    # A process that a launcher started has not read the command line.
    load_plugins(OmegaConf.select(composed, "plugins", default=[]))
    is_job = hydra_config.mode is RunMode.MULTIRUN
    if is_job and "study" not in hydra_config.callbacks:
        raise ValueError(
            "-m needs the section hydra of configs/train.yaml, which the file of --config-name "
            "lacks; copy it there, or use train.yaml"
        )
    try:
        if is_job:
            path = Path(hydra_config.runtime.output_dir)
            with launched_job(path.name):
                return run_job(path, lambda: _train_job(to_dataclass(composed, TrainConfig), path))
        config = _read(composed)
        path = expand_home(config.checkpoint_dir, key="checkpoint_dir") / config.run_name
        score = _train_into(config, path)
    except Interrupted as stop:
        if is_first_process():
            sweep = f"hydra.sweep.dir={hydra_config.sweep.dir} resume=auto"
            keys = sweep if is_job else "resume=true"
            print(f"{stop}; to continue, repeat the command with {keys}", file=sys.stderr)
        sys.exit(128 + stop.signal_number)  # the exit code that shells expect
    if is_first_process():
        print(f"\n{_next_commands(config, path)}", file=sys.stderr)
    return score


def _read(composed: DictConfig) -> TrainConfig:
    """Return the configuration; it may come from the config.yaml of a run, which has no schema."""
    if config_groups().keys() <= set(composed) and OmegaConf.get_type(composed) is dict:
        with reading("the file of --config-name"):
            return config_from_dict(OmegaConf.to_container(composed))  # type: ignore[arg-type]
    return to_dataclass(composed, TrainConfig)


def _train_job(config: TrainConfig, path: Path) -> float:
    # A resumed sweep continues the jobs that were begun and starts the remaining jobs.
    return _train_into(replace(config, resume="auto" if config.resume else False), path)


def _train_into(config: TrainConfig, path: Path) -> float:
    """Train; return the value by which the best checkpoint was chosen on the validation set.

    A sweeper that saw test scores would fit the configuration to the test set.
    """
    metric = config.training.validation.metric
    valid = run_training(config, path, command=_command()).valid
    if metric is Metric.loss:  # comparable even between tokenizers
        return -valid.scores["character_loss"]
    return metric_value(valid, metric)


def _command() -> str:
    """Return the command of a run, without the keys that say how it starts."""
    overrides = HydraConfig.get().overrides.task
    is_start = re.compile(r"(resume|overwrite)=").match
    return shlex.join(["python", "train.py", *(each for each in overrides if not is_start(each))])


def _next_commands(config: TrainConfig, path: Path) -> str:
    """Return commands that use a run: translate, show its curves, score, export and serve."""
    script = Path(sys.argv[0])
    translate = str(script.with_name(script.name.replace("train", "translate")))
    python = min(sys.executable, os.path.relpath(sys.executable), key=len)
    model = [f"checkpoint={path}", *([as_argument(config.plugins)] if config.plugins else [])]
    name = "test" if (path / "test.hyp").exists() else "valid"
    files = [f"hypotheses={path}/{name}.hyp", f"reference={path}/{name}.ref"]
    modules = {
        "look": ["tensorboard.main", "--logdir", str(path.parent)],
        "score": ["seq2seq.cli.score", *files],
    }
    if has_subwords(load_checkpoint(path).tokenizers):  # only such models can be exported
        modules["export"] = ["seq2seq.cli.export", *model, f"output={path.name}-onnx"]
    modules["serve"] = ["seq2seq.cli.serve", *model]
    commands = {"translate": [python] * (script.suffix == ".py") + [translate, *model]}
    commands |= {name: [python, "-m", *module] for name, module in modules.items()}
    lines = (f"  {name:<10} {shlex.join(command)}" for name, command in commands.items())
    return "\n".join(["Next:", *lines])


if __name__ == "__main__":
    main()
