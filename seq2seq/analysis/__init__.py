"""Analyse trained runs in a notebook: their sentences, and attention over a whole corpus."""

from seq2seq.analysis.run import CorpusAttention, Run, ScoredPair, attend, load_run

__all__ = ["CorpusAttention", "Run", "ScoredPair", "attend", "load_run"]
