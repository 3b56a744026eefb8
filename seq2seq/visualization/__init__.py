"""Visualization: figures of attention, and the HTML pages of attention and of a study."""

from seq2seq.visualization.page import AttentionPage
from seq2seq.visualization.plots import attention_figure, head_figure

__all__ = ["AttentionPage", "attention_figure", "head_figure"]
