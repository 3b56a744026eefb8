"""Checkpoints: one self-contained file each."""
