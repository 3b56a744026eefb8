"""Plug-ins: Python files of the user that register new parts.

A plug-in is loaded only if the caller names it. A checkpoint names the plug-ins of its run, but
reading the checkpoint does not load them.
"""

import importlib
import traceback
from collections.abc import Sequence

from hydra.core.override_parser.overrides_parser import OverridesParser

from seq2seq.config import plugin_modules
from seq2seq.files.paths import expand_home

KEY = "plugins"


def load_plugins(plugins: Sequence[str]) -> None:
    """Load Python files that register parts, such as attention types; each file is loaded once.

    Args:
        plugins: Paths, relative to the current directory. A file imports its neighbors with
            `from . import NAME`.

    Raises:
        ValueError: A plug-in is not Python, raises an error or has the name of another plug-in.
        OSError: There is no such file.

    Example:
        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> from seq2seq import load_plugins
        >>> with TemporaryDirectory() as folder:
        ...     path = Path(folder) / "my_plugin.py"
        ...     _ = path.write_text("print('loaded')")
        ...     load_plugins([str(path)])
        loaded
    """
    for plugin in plugins:
        _load(plugin)


def _load(plugin: str) -> None:
    path = expand_home(plugin, key=KEY).resolve()
    path.stat()
    plugin_modules.add_folder(str(path.parent))
    importlib.invalidate_caches()  # Python may have listed the folder before the file was written
    try:
        module = importlib.import_module(f"{plugin_modules.__name__}.{path.stem}")
    except (Exception, SystemExit) as error:  # a plug-in may raise anything
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == str(path)]
        place = f", line {lines[-1]}" if lines else ""  # a SyntaxError names its line itself
        raise ValueError(f"{KEY}={plugin}{place}: {type(error).__name__}: {error}") from error
    if module.__file__ != str(path):
        raise ValueError(f"{KEY}={plugin} has the same name as {module.__file__}; rename it")


def load_plugins_of(overrides: Sequence[str]) -> None:
    """Load the plug-ins that the override `plugins=[...]` of a training names.

    Hydra offers the registered types as choices, so loading in the task function would be too late.
    """
    given = [each for each in overrides if each.lstrip("+").startswith(f"{KEY}=")]
    if not given:
        return
    value = OverridesParser.create().parse_override(given[-1]).value()
    if isinstance(value, list):  # the schema refuses another value
        load_plugins([str(each) for each in value])


def as_argument(plugins: Sequence[object]) -> str:
    """Return the argument of a command that names plug-ins."""
    return f"{KEY}=[{','.join(map(str, plugins))}]"


def how_to_load(plugins: object) -> str:
    """Return a hint on how to load the plug-ins that a file names; "" if there are none."""
    if not isinstance(plugins, list) or not plugins:
        return ""
    return (
        f"; its run used plug-ins: add {as_argument(plugins)}, or in Python call "
        "seq2seq.load_plugins"
    )
