"""Checkpoints: read, write and average the self-contained files of trained models."""
