"""Greedy search, beam search and sampling, for any model that encodes and steps."""
