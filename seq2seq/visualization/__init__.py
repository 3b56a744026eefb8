"""Visualization of attention: figures of weights and heads, and an HTML page."""

from seq2seq.visualization.heads import head_figure
from seq2seq.visualization.page import AttentionPage
from seq2seq.visualization.plots import attention_figure, bar_chart

__all__ = ["AttentionPage", "attention_figure", "bar_chart", "head_figure"]
