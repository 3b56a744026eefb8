"""What a run shows: log lines, a progress bar, and curves for TensorBoard."""
