"""Quote the arguments of a command as Hydra expects them."""

from collections.abc import Collection, Sequence

from seq2seq.config.quoting import quote_value

TRANSLATE_LISTS = ("checkpoint", "plugins", "input", "reference", "prefixes", "output")
"""Keys of one path or several."""
TRANSLATE_PATHS = (
    "alignments",
    "attention_plot",
    "attention_html",
    "gold",
    "banned_phrases",
    "dictionary",
)
"""Keys of one path."""
_SWEEP_OPTIONS = ("-m", "--multirun")


def quote_plain_values(
    arguments: Sequence[str],
    *,
    lists: Collection[str] = TRANSLATE_LISTS,
    paths: Collection[str] = TRANSLATE_PATHS,
) -> list[str]:
    """Quote `text`, and the paths of these keys, to make Hydra take them literally.

    Without quotes, a comma would start a sweep and an umlaut would be a syntax error. A quoted
    path and `null` stay as they are. A single path for a key of `lists` becomes a list.
    """
    return [_quote(argument, lists=lists, paths=paths) for argument in arguments]


def multirun_first(arguments: Sequence[str]) -> list[str]:
    """Put -m before the other arguments; argparse refuses keys on both sides of it.

    Example:
        >>> multirun_first(["seed=1,2", "-m", "attention=dot"])
        ['-m', 'seed=1,2', 'attention=dot']
    """
    return sorted(arguments, key=lambda each: each not in _SWEEP_OPTIONS)


def refuse_sweep(arguments: Sequence[str]) -> None:
    """Raise ValueError if a command without sweeps gets -m, for which Hydra creates directories."""
    for each in arguments:
        if each in (*_SWEEP_OPTIONS, "hydra.mode=MULTIRUN"):
            raise ValueError(f"{each}: only train.py sweeps; run this command for each combination")


def _quote(argument: str, *, lists: Collection[str], paths: Collection[str]) -> str:
    key, equals, value = argument.partition("=")
    if equals and key in lists:
        return f"{key}={_quote_list(value)}"
    if equals and (key == "text" or (key in paths and not _is_hydra_value(value))):
        return f"{key}={quote_value(value)}"
    return argument


def _quote_list(value: str) -> str:
    """Quote the paths of [a,b], or make a list of one path; keep a list with quotes."""
    if value in ("null", "???"):
        return value
    if not (value.startswith("[") and value.endswith("]")):
        return f"[{value if value and _is_hydra_value(value) else quote_value(value)}]"
    paths = value[1:-1].strip()
    if not paths or any(quote in paths for quote in "'\""):
        return value
    return f"[{','.join(quote_value(path.strip()) for path in paths.split(','))}]"


def _is_hydra_value(value: str) -> bool:
    is_quoted = len(value) > 1 and value[0] == value[-1] and value[0] in "'\""
    return is_quoted or value in ("", "null", "???")
