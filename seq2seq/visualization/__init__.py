"""Visualization: figures of attention, and the HTML pages of attention and of a study.

The names below are loaded on first use: a service with exported models needs no torch.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from seq2seq.visualization.page import AttentionPage
    from seq2seq.visualization.plots import attention_figure, head_figure

__all__ = ["AttentionPage", "attention_figure", "head_figure"]


def __getattr__(name: str) -> object:
    if name in __all__:
        module = "page" if name == "AttentionPage" else "plots"
        return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
