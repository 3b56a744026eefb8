"""Plug-ins: Python files of the user that register attention types and searches.

Only a caller who names a plug-in loads it. A checkpoint names the plug-ins of its run, but reading
one loads nothing.
"""

import importlib
import importlib.util
import os
import traceback
from collections.abc import Sequence
from pathlib import Path

from hydra.core.override_parser.overrides_parser import OverridesParser

from seq2seq.config import plugin_modules
from seq2seq.config.composition import quote_where_needed
from seq2seq.files.paths import check_readable, expand_home

KEY = "plugins"


def load_plugins(plugins: Sequence[str]) -> None:
    """Load Python code that registers attention types or searches; a second time changes nothing.

    Args:
        plugins: Files, which end in .py and start from the current directory, or names of
            importable modules. A file imports its neighbours as `from . import NAME`.

    Raises:
        ValueError: A plug-in is not Python, raises an error or has the name of another module.
        OSError: There is no such file.
        TypeError: The plug-ins are one text.

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
    if isinstance(plugins, str):
        raise TypeError(f"the plug-ins must be a list: load_plugins([{plugins!r}])")
    for plugin in plugins:
        is_file = plugin.endswith(".py") or os.sep in plugin
        _import(plugin, _make_importable(plugin) if is_file else plugin)


def load_plugins_of(overrides: Sequence[str]) -> None:
    """Load the plug-ins that `plugins=...` names, before the other overrides are read.

    Hydra's choices are the registered types, so the task function would come too late.
    """
    given = [each for each in overrides if each.lstrip("+").startswith(f"{KEY}=")]
    if not given:
        return
    value = OverridesParser.create().parse_override(given[-1]).value()
    if not isinstance(value, list):
        raise ValueError(f"{given[-1]} must be a list: {KEY}=[FILE.py]")
    load_plugins([str(each) for each in value])


def as_argument(plugins: Sequence[object]) -> str:
    """Return the argument of a command that names plug-ins."""
    return f"{KEY}=[{','.join(quote_where_needed(str(each)) for each in plugins)}]"


def how_to_load(plugins: object) -> str:
    """Return a hint at the key for the plug-ins that a file names; "" if it names none."""
    if not isinstance(plugins, list) or not plugins:
        return ""
    return (
        f"; its run had the plug-ins {as_argument(plugins)}, which are loaded only if you give "
        "this key, or in Python call seq2seq.load_plugins"
    )


def _make_importable(plugin: str) -> str:
    """Return the name of a file's module, which can be imported from now on."""
    path = expand_home(plugin, key=KEY).resolve()
    check_readable(path, name=f"{KEY}={plugin}")
    if path.suffix != ".py" or not path.stem.isidentifier():
        raise ValueError(
            f"{KEY}={plugin} must be a Python file whose name is a Python name, as cosine.py"
        )
    plugin_modules.add_folder(str(path.parent))
    importlib.invalidate_caches()  # the file may be younger than the last look at its folder
    name = f"{plugin_modules.__name__}.{path.stem}"
    found = importlib.util.find_spec(name)
    if found is None or found.origin is None or Path(found.origin) != path:
        raise ValueError(
            f"{KEY}={plugin} has the name of the plug-in {found and found.origin}; rename it"
        )
    return name


def _import(plugin: str, name: str) -> None:
    try:
        module = importlib.import_module(name)
    except SyntaxError as error:
        raise ValueError(
            f"{KEY}={plugin} is not Python: line {error.lineno}: {error.msg}"
        ) from error
    except (Exception, SystemExit) as error:  # a plug-in may raise anything
        if isinstance(error, ModuleNotFoundError) and error.name in (name, name.split(".")[0]):
            raise ValueError(
                f"{KEY}={plugin}: there is no such module; give a file, {KEY}=[DIR/NAME.py], or a "
                "module that Python can import"
            ) from error
        raise ValueError(
            f"{KEY}={plugin}{_line(error)}: {type(error).__name__}: {error}"
        ) from error
    if module.__file__ is None:
        raise ValueError(f"{KEY}={plugin} is a directory; give a file, {KEY}=[{plugin}/NAME.py]")


def _line(error: BaseException) -> str:
    """Return the line of a plug-in's code that raised an error."""
    package = Path(__file__).parents[1]
    frames = [
        frame
        for frame in traceback.extract_tb(error.__traceback__)
        if not frame.filename.startswith("<frozen")
        and not Path(frame.filename).is_relative_to(package)
        and "importlib" not in Path(frame.filename).parts
    ]
    return f", line {frames[-1].lineno}" if frames else ""
