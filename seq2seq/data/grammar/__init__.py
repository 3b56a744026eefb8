"""Parallel corpora generated from a synchronous grammar, with gold word links."""
