"""Commands to type after a training, written as this process was called."""

import shlex
import shutil
import sys
from pathlib import Path

from seq2seq.config.plugins import as_argument
from seq2seq.config.schema import TrainConfig


def next_steps(config: TrainConfig, path: Path) -> dict[str, str]:
    """Return the commands that fit the finished run in a directory, by purpose."""
    plugins = [as_argument(config.plugins)] if config.plugins else []
    commands = {
        "translate": [*command("translate"), f"checkpoint={path}", *plugins],
        "look": [*_tensorboard(), "--logdir", str(path.parent)],
    }
    if config.data.name == "grammar":
        commands["real text"] = [*command("train"), "data=multi30k"]
    return {purpose: shlex.join(words) for purpose, words in commands.items()}


def command(name: str) -> list[str]:
    """Return how "train" or "translate" is called, in the way that this process was called."""
    script = Path(sys.argv[0])
    module = getattr(sys.modules["__main__"], "__spec__", None)
    if module is not None and module.name.startswith("seq2seq."):  # python -m seq2seq.cli.train
        return [relative(Path(sys.executable)), "-m", f"seq2seq.cli.{name}"]
    if script.suffix == ".py" and (script.parent / f"{name}.py").exists():
        return [relative(Path(sys.executable)), str(script.parent / f"{name}.py")]
    return [_program(script.with_name(f"seq2seq-{name}"))]


def _tensorboard() -> list[str]:
    program = Path(sys.executable).with_name("tensorboard")
    if program.exists():
        return [relative(program)]
    return [relative(Path(sys.executable)), "-m", "tensorboard.main"]


def _program(path: Path) -> str:
    """Return the name of an installed program, with its path if the shell would not find it."""
    found = shutil.which(path.name)
    is_found = found is not None and Path(found).resolve() == path.resolve()
    return path.name if is_found or not path.exists() else relative(path.absolute())


def relative(program: Path) -> str:
    """Return the path from the working directory where the program is below it."""
    is_below = program.is_relative_to(Path.cwd())
    return str(program.relative_to(Path.cwd()) if is_below else program)
