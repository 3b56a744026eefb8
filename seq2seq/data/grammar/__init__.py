"""A corpus generated from a grammar, with its word alignments."""
