"""Analyze trained runs in a notebook: their sentences, and attention over a whole corpus."""
