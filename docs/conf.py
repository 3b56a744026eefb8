"""Sphinx configuration of the documentation: `sphinx-build -W -b html docs docs/_build/html`."""

import re
import sys
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from typing import get_type_hints

from sphinx.application import Sphinx

from seq2seq import __version__
from seq2seq.checks import Config

project = "seq2seq"
author = "the seq2seq contributors"
project_copyright = "the seq2seq contributors"
version = release = __version__

extensions = [
    "myst_nb",
    "sphinx.ext.autodoc",
    "sphinx.ext.napoleon",
    "sphinx.ext.viewcode",
    "sphinx.ext.mathjax",
    "sphinx-mathjax-offline",  # MathJax from a local copy: the site works without a network
    "sphinx_copybutton",
]
exclude_patterns = ["_build"]
highlight_language = "none"  # blocks without a language are output, not Python

html_theme = "furo"
html_title = f"seq2seq {release}"
html_static_path = ["_static"]
html_css_files = ["custom.css"]
html_copy_source = False
html_show_sourcelink = False

myst_enable_extensions = ["dollarmath", "amsmath", "colon_fence"]
myst_heading_anchors = 3
myst_links_external_new_tab = False

# The notebook trains a small model; it is executed whenever its page or this file has changed.
nb_execution_mode = "force"
nb_execution_timeout = 300
nb_execution_raise_on_error = True
nb_merge_streams = True

# Docstrings put code in single backticks; a name that is documented becomes a link.
default_role = "py:obj"
autodoc_member_order = "bysource"
autodoc_typehints_format = "short"
autodoc_default_options = {
    "members": True,
    "show-inheritance": True,
    "exclude-members": "marks, section",  # what a changed key means, for other programs
}
napoleon_numpy_docstring = False
python_maximum_signature_line_length = 88
python_use_unqualified_type_names = True

copybutton_exclude = ".linenos, .gp, .go"


def escape_markup(
    app: object, kind: str, name: str, documented: object, options: object, lines: list[str]
) -> None:
    """Keep formulas of docstrings, such as |q - k|, from being read as markup.

    Docstrings are plain text with code in backticks. An example, from `>>>` to the next empty
    line, stays as it is.
    """
    if lines and lines[0].startswith("Alias for field number"):
        lines.clear()  # Python's own docstring of a NamedTuple's field
    in_example = False
    for number, line in enumerate(lines):
        in_example = line.lstrip().startswith(">>>") or (in_example and bool(line.strip()))
        if not in_example:
            text_and_code = line.split("`")
            text_and_code[::2] = [re.sub(r"([|*])", r"\\\1", text) for text in text_and_code[::2]]
            lines[number] = "`".join(text_and_code)
    if kind == "attribute" and lines and ":" in lines[0]:
        lines.insert(0, "\\ ")  # else napoleon takes the text before the colon for a type


def show_plain_types(app: Sphinx) -> None:
    """Give configurations annotations without ranges and marks, which the list of keys shows."""
    from seq2seq.config.schema import config_groups

    config_groups()  # imports all configurations

    def subclasses(of: type) -> Iterator[type]:
        yield of
        for each in of.__subclasses__():
            yield from subclasses(each)

    for config in subclasses(Config):
        hints = get_type_hints(config)
        for annotated in (config, config.__init__):
            annotated.__annotations__ |= {
                name: hints[name] for name in annotated.__annotations__ if name in hints
            }


def shorten_defaults(
    app: object,
    kind: str,
    name: str,
    documented: object,
    options: object,
    signature: str | None,
    result: str | None,
) -> tuple[str | None, str | None]:
    """Write defaults that are no Python, such as `<factory>`, as `...`.

    Sphinx cannot read a signature that has one, and would print it in one line without links.
    """
    return signature and re.sub(r"= <.*?>(?=[,)])", "= ...", signature), result


def keep_choices(
    app: object, kind: str, name: str, documented: object, skip: bool, options: object
) -> bool | None:
    """Show the members of an enumeration, also those without a text."""
    return False if isinstance(documented, Enum) else None


def write_study(app: Sphinx) -> None:
    """Write the example report, which the pages link to."""
    sys.path.insert(0, str(app.srcdir))
    import study

    study.write(Path(app.srcdir, "_static", "study.html"))


def write_translator(app: Sphinx) -> None:
    """Write the page that translates, or without network a page that says what is missing."""
    import translator

    path = Path(app.srcdir, "_static", "translator.html")
    try:
        translator.write(path)
    except (OSError, ValueError) as error:
        print(f"the page that translates is left out: {error}", file=sys.stderr)
        path.write_text("<p>This build of the documentation has no onnxruntime-web.</p>\n")


def setup(app: Sphinx) -> None:
    """Write the generated pages, and escape docstrings before napoleon does."""
    app.connect("builder-inited", show_plain_types)
    app.connect("builder-inited", write_study)
    app.connect("builder-inited", write_translator)
    app.connect("autodoc-process-signature", shorten_defaults)
    app.connect("autodoc-skip-member", keep_choices)
    app.connect("autodoc-process-docstring", escape_markup, priority=100)
