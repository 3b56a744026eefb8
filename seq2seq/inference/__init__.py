"""Read and write checkpoints, translate with them, alone or as an ensemble, and score."""
