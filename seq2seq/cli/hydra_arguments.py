"""Arguments of translate.py as Hydra takes them."""

import re
from collections.abc import Collection, Sequence

TRANSLATE_LISTS = ("checkpoint", "input", "reference", "prefixes", "output")
"""keys of one path or several"""
PATH_KEYS = (
    "output",
    "alignments",
    "attention_plot",
    "attention_html",
    "gold",
    "forbidden",
    "dictionary",
)


def quote_plain_values(arguments: Sequence[str]) -> list[str]:
    """Quote `text` and paths on the command line, so that Hydra takes them as they are.

    Without it a comma would ask for a sweep, and an umlaut would be a syntax error. A path that
    is quoted already is left alone, as is `null`. Checkpoints, inputs, references and outputs
    become a list, be it of one, and so do hypotheses and their references.
    """
    lists = ("hypotheses", "reference") if has_hypotheses(arguments) else TRANSLATE_LISTS
    return [_quote(argument, lists=lists) for argument in arguments]


def has_hypotheses(arguments: Sequence[str]) -> bool:
    """Say whether translations are to be scored, instead of made."""
    return "hypotheses" in (argument.partition("=")[0] for argument in arguments)


def check_beside_hypotheses(
    arguments: Sequence[str], *, known: Collection[str], translating: Collection[str]
) -> None:
    """Refuse what does not go with hypotheses.

    Args:
        arguments: the command line.
        known: the keys of scoring.
        translating: the keys of translating, of which some are those of scoring too.

    Raises:
        ValueError: a key has to do with a model, or was added and nothing reads it.
    """
    for argument in arguments:
        key, equals, _ = argument.partition("=")
        name = key.lstrip("+~").split(".")[0]
        if not equals or name in known or name == "hydra":
            continue
        if name in translating:
            raise ValueError(
                f"{key}= has no place beside hypotheses=, which are scored as they are, without "
                "a model; leave one of the two"
            )
        if key.startswith("+"):
            raise ValueError(f"unknown key {name!r}; leave it out")


def _quote(argument: str, *, lists: Collection[str]) -> str:
    key, equals, value = argument.partition("=")
    if equals and key in lists:
        return f"{key}={_quote_list(value)}"
    if equals and (key == "text" or (key in PATH_KEYS and not _is_hydra_value(value))):
        return f"{key}={_quote_value(value)}"
    return argument


def _quote_value(value: str) -> str:
    # Hydra takes backslashes before a quote, and OmegaConf those before "${", as escapes.
    value = re.sub(r"(\\*)('|\Z)", lambda match: match[1] * 2 + "\\'" * bool(match[2]), value)
    value = re.sub(r"(\\*)\$\{", r"\1\1\\${", value)
    return f"'{value}'"


def _quote_list(value: str) -> str:
    """Quote the paths of [a,b], or make a list of one path; a list with quotes is left alone."""
    if value in ("null", "???"):
        return value
    if not (value.startswith("[") and value.endswith("]")):
        return f"[{value if value and _is_hydra_value(value) else _quote_value(value)}]"
    paths = value[1:-1].strip()
    if not paths or any(quote in paths for quote in "'\""):
        return value
    return f"[{','.join(_quote_value(path.strip()) for path in paths.split(','))}]"


def _is_hydra_value(value: str) -> bool:
    is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    return is_quoted or value in ("", "null", "???")
