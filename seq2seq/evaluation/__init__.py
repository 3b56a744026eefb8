"""Scores of translations, their significance, word alignments and statistics of attention."""
