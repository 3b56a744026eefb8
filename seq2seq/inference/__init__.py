"""From a checkpoint and sentences to translations."""
