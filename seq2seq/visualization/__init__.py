"""Figures of attention, and the HTML pages of attention and of a study."""
