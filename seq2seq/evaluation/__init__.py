"""Score translations, word alignments and attention, and test whether scores differ."""
