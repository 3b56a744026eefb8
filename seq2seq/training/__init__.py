"""Training: from a configuration to a scored checkpoint."""
