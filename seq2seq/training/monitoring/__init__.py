"""Log lines, a progress bar, and curves for TensorBoard."""
