"""Evaluation: scores of translations, word alignments and statistics of attention."""
