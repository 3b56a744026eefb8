"""Describe every key of every command, or the groups of configurations, in Markdown.

python docs/keys.py > docs/reference/keys.md
python docs/keys.py groups > configs/README.md
"""

import ast
import inspect
import re
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from enum import Enum
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import yaml  # type: ignore[import-untyped]

from seq2seq.checks import Config, FieldType, Range, as_yaml, field_types
from seq2seq.cli.command_line import load_command
from seq2seq.config.composition import config_directory
from seq2seq.config.schema import config_groups, load_config
from seq2seq.config.serialization import flatten
from seq2seq.training.resume import MAY_CHANGE

_REQUIRED = "required"
_OWN_TEXT = (f"data.train=[{_REQUIRED}]", f"data.valid=[{_REQUIRED}]")
_MOST_DEFAULTS = 4
_WORDS = {
    bool: "`true` or `false`",
    int: "integer",
    float: "number",
    str: "text",
    list: "list",
    dict: "dictionary of numbers",
}


class Key(NamedTuple):
    """A key with one meaning; a key with several meanings has several entries."""

    key: str
    values: str
    """Type, range and choices."""
    default: str
    meaning: str
    needs: str = ""
    """The choices with this key; "" if it belongs to every choice."""


def reference_of_keys() -> str:
    """Return the page of the keys of all commands."""
    commands = config_directory() / "commands"
    folders = sorted(each for each in config_directory().iterdir() if each.is_dir())
    choices = [
        f"- `{folder.name}=` " + _listed([path.stem for path in sorted(folder.iterdir())])
        for folder in folders
        if folder != commands
    ]
    lines = [
        "# All keys",
        "",
        "This page lists every key of every command, with its type, range, default and meaning. "
        "`python docs/keys.py` generates it from the source code. "
        "`python train.py --cfg job --resolve` prints each training key with its value.",
        "",
        "A key is given as `key=value` on the command line and to `load_config`. Where a default "
        "depends on another choice, the table names the choice. A default that follows another key "
        "has a reference such as `${data.source}` beside it. `null` means none.",
        "",
        "A [resumed run](../how-to/resuming.md) may have other values of these keys: "
        f"{_listed(sorted(MAY_CHANGE - {'decoding'}))}, and of all keys that begin with "
        "`decoding.`. All other keys must have the values that the run began with.",
        "",
        *_section("train.py", _keys_of_training()),
        "These groups are chosen by name, as in `attention=dot`:",
        "",
        *choices,
        "",
        *(line for path in sorted(commands.glob("*.yaml")) for line in _command(path)),
    ]
    return "\n".join(lines)


_FIRST = ("attention", "model")
"""Groups that a reader looks for first."""
_IN_CODE = {"attention": "seq2seq/attention", "decoding": "seq2seq/search/config.py"}
"""Where the values of the groups without YAML files are."""


def page_of_groups() -> str:
    """Return the page of the groups of configurations, of their options and their values."""
    content = yaml.safe_load((config_directory() / "train.yaml").read_text(encoding="utf-8"))
    named = [each for each in content["defaults"] if isinstance(each, dict)]
    chosen = {key: value for each in named for key, value in each.items() if "override" not in key}
    rows = []
    for group in sorted(chosen, key=lambda name: name not in _FIRST):
        options = config_groups().get(group, {}) if group in _IN_CODE else {}
        names = [*options] or [path.stem for path in sorted((config_directory() / group).iterdir())]
        marked = [f"**{name}**" if name == chosen[group] else name for name in names]
        place = f"../{_IN_CODE[group]}" if group in _IN_CODE else group
        rows.append(f"| `{group}=` | {', '.join(marked)} | [{place.strip('./')}]({place}) |")
    lines = [
        "# Configurations",
        "",
        "A run is composed of one option of each group, as in "
        "`python train.py attention=dot model=luong`. `train.yaml` names the defaults, here in "
        "bold. Single keys then change values, as in `training.max_epochs=5`; "
        "[All keys](../docs/reference/keys.md) explains them. `commands/` has the keys of the "
        "other commands. `python docs/keys.py groups` writes this page.",
        "",
        "| group | options | where the values are |",
        "|---|---|---|",
        *rows,
    ]
    return "\n".join(lines)


def _keys_of_training() -> list[Key]:
    groups: dict[str, Iterable[str]] = dict(config_groups())
    groups |= {
        group: [path.stem for path in sorted((config_directory() / group).iterdir())]
        for group in ("model", "model_size")
    }
    variants: dict[str, Config] = {"": load_config()}
    for group, names in groups.items():
        for name in names:
            own_text = _OWN_TEXT if name == "files" else ()
            variants[f"{group}={name}"] = load_config(f"{group}={name}", *own_text)
    references = dict(_references())
    return [
        key._replace(default=f"{key.default} (`{references[key.key]}`)")
        if key.key in references
        else key
        for key in _keys_of(variants)
    ]


def _references() -> Iterator[tuple[str, str]]:
    """Yield the keys of training whose defaults refer to other keys, with the references."""
    folder = config_directory()
    groups = (path for path in folder.glob("*/*.yaml") if path.parent.name != "commands")
    for path in (folder / "train.yaml", *sorted(groups)):
        section = "" if path.parent == folder else f"{path.parent.name}."
        for key, value in flatten(yaml.safe_load(path.read_text(encoding="utf-8"))).items():
            if isinstance(value, str) and re.search(r"\$\{[a-z._]+\}", value):
                yield f"{section}{key}", value


def _command(path: Path) -> list[str]:
    """Describe the command of a YAML file; its module has the dataclass of the keys."""
    name = path.stem
    config_type = getattr(import_module(f"seq2seq.cli.{name}"), f"{name.title()}Config")
    values = yaml.safe_load(path.read_text(encoding="utf-8"))
    given = [f"{key}={_REQUIRED}" for key, value in values.items() if value == "???"]
    config = load_command(name, config_type, given)
    lines = _section(f"seq2seq-{name}", _keys_of({"": config}))
    note = "`decoding` and the keys under `decoding.` are those of train.py."
    return [*lines, note, ""] if hasattr(config, "decoding") else lines


def _keys_of(variants: dict[str, Config]) -> list[Key]:
    """Return the keys of configurations, each under the override that leads to it."""
    found: dict[Key, dict[str, str]] = {}  # defaults by override
    for override, config in variants.items():
        for key in _keys_with_defaults(config):
            found.setdefault(key._replace(default=""), {})[override] = key.default
    keys = []
    for key, defaults in found.items():
        group = f"{key.key.partition('.')[0]}="
        choices = [override for override in variants if override.startswith(group)]
        having = [override for override in choices if override in defaults]
        needs = having if len(having) < len(choices) else []
        keys.append(key._replace(default=_default(defaults), needs=_listed(needs)))
    sections = list(dict.fromkeys(key.key.rpartition(".")[0] for key in keys))
    return sorted(keys, key=lambda each: sections.index(each.key.rpartition(".")[0]))


def _default(defaults: dict[str, str]) -> str:
    """Write the usual default, and the choices with another default."""
    overrides: dict[str, list[str]] = {}
    for override, default in defaults.items():
        overrides.setdefault(default, []).append(override)
    usual, *others = overrides
    if len(others) > _MOST_DEFAULTS:
        groups = {override.partition("=")[0] for each in others for override in overrides[each]}
        return f"{usual}; depends on {_listed(sorted(groups))}"
    texts = [usual, *(f"{default} with {_listed(overrides[default])}" for default in others)]
    return "; ".join(texts)


def _listed(texts: Sequence[str]) -> str:
    return ", ".join(f"`{text}`" for text in texts)


def _keys_with_defaults(config: Config) -> Iterator[Key]:
    meanings = _texts_below(type(config))  # type: ignore[arg-type]  # a class has a hash
    types = field_types(type(config))  # type: ignore[arg-type]
    for field in fields(config):
        value = getattr(config, field.name)
        if isinstance(value, Config):
            if config.section or field.name != "decoding" or hasattr(config, "training"):
                yield from _keys_with_defaults(value)
            continue
        is_required = value in (_REQUIRED, [_REQUIRED])
        default = _REQUIRED if is_required else f"`{_plain(value)}`"
        meaning = meanings.get(field.name, "").replace("None", "null")
        for base in types[field.name].bases:
            for member, text in _texts_below(base).items() if issubclass(base, Enum) else ():
                meaning += f" `{member}`: {text}"
        key = f"{config.section}.{field.name}".lstrip(".")
        yield Key(key, _values(types[field.name]), default, meaning.strip())


def _plain(value: object) -> str:
    if isinstance(value, list):
        return f"[{','.join(map(_plain, value))}]"
    return value.name if isinstance(value, Enum) else as_yaml(value)


def _values(field_type: FieldType) -> str:
    """Write type, range and choices of a field."""
    optional = ", or `null`" if field_type.is_optional else ""
    # A rule that is not a range says everything.
    if rules := [str(rule) for rule in field_type.rules if not isinstance(rule, Range)]:
        return ", ".join(rules) + optional
    words = [
        ", ".join(f"`{member}`" for member in base.__members__)
        if issubclass(base, Enum)
        else _WORDS.get(base, "list or dictionary of files")
        for base in field_type.bases
    ]
    ranges = [str(rule).partition(";")[0] for rule in field_type.rules]
    return ", ".join([" or ".join(words), *ranges]) + optional


@cache
def _texts_below(described: type) -> dict[str, str]:
    """Return the text below each field of a class and its bases."""
    found: dict[str, str] = {}
    for part in reversed(described.__mro__):
        if not part.__module__.startswith("seq2seq."):
            continue
        [tree] = ast.parse(textwrap.dedent(inspect.getsource(part))).body
        assert isinstance(tree, ast.ClassDef)
        for field, below in zip(tree.body, tree.body[1:], strict=False):
            target = field.targets[0] if isinstance(field, ast.Assign) else None
            target = field.target if isinstance(field, ast.AnnAssign) else target
            text = below.value if isinstance(below, ast.Expr) else None
            if isinstance(target, ast.Name) and isinstance(text, ast.Constant):
                found[target.id] = " ".join(str(text.value).split())
    return found


def _section(command: str, keys: Iterable[Key]) -> list[str]:
    lines = [f"## {command}", ""]
    section = None
    for key in keys:
        if (here := key.key.rpartition(".")[0]) != section:
            section = here
            lines += ["", f"### {here}", ""] if here else []
            lines += ["| key | values | default | meaning |", "|---|---|---|---|"]
        needs = f" Only with {key.needs}." if key.needs else ""
        cells = [f"`{key.key}`", key.values, key.default, key.meaning + needs]
        lines.append(f"| {' | '.join(map(_escape, cells))} |")
    return [*lines, ""]


def _escape(text: str) -> str:
    """Escape what Markdown would read as markup; between backticks, only | is."""
    plain_and_code = text.replace("|", r"\|").split("`")
    plain_and_code[::2] = [re.sub(r"([*<\[])", r"\\\1", plain) for plain in plain_and_code[::2]]
    return "`".join(plain_and_code)


if __name__ == "__main__":
    write = page_of_groups if sys.argv[1:] == ["groups"] else reference_of_keys
    print(write().rstrip())
