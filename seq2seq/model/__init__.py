"""The encoder-decoder model and its parts."""
