"""Write values as Hydra reads them on a command line."""

import re

from hydra.core.override_parser.overrides_parser import OverridesParser


def quote_value(value: str) -> str:
    """Put a text in quotes, between which Hydra takes it literally.

    Example:
        >>> print(quote_value("it's, 1"))
        'it\\'s, 1'
    """
    # Hydra unescapes backslashes before a quote.
    value = re.sub(r"(\\*)('|\Z)", lambda match: match[1] * 2 + "\\'" * bool(match[2]), value)
    return f"'{escape_interpolations(value)}'"


def escape_interpolations(value: str) -> str:
    """Escape each "${", so that OmegaConf takes the text literally.

    Example:
        >>> print(escape_interpolations("${NAME}"))
        \\${NAME}
    """
    return re.sub(r"(\\*)\$\{", r"\1\1\\${", value)


def quote_where_needed(value: str) -> str:
    """Put a path in quotes unless Hydra takes it literally without them.

    Example:
        >>> quote_where_needed("my runs/a.py"), quote_where_needed("a,b"), quote_where_needed("1_0")
        ('my runs/a.py', "'a,b'", "'1_0'")
    """
    is_plain = re.fullmatch(r"[\w./@%+-]+( [\w./@%+-]+)*", value, flags=re.ASCII)
    # Numbers, truth values and null consist of such characters too.
    if is_plain and OverridesParser.create().parse_override(f"x={value}").value() == value:
        return value
    return quote_value(value)
