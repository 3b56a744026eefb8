"""Translate with trained models, alone or as an ensemble, and score known translations."""
