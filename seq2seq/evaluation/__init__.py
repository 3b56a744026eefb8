"""Scores of translations and of attention."""
