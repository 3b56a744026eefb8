"""Token ids that every vocabulary reserves, their labels, and marks in texts."""

PAD, UNK, BOS, EOS = 0, 1, 2, 3
SPECIAL_TOKENS = ("<pad>", "<unk>", "<s>", "</s>")
"""Labels of these ids, in their order."""
UNKNOWN_SURFACE = "\u2047"
"""Text of an unknown token."""
SPACE_LABEL = "\u2581"
"""Label of a space."""
NEVER_PREDICTED = slice(PAD, BOS + 1, BOS - PAD)
"""PAD and BOS, which no translation contains. Indexing with a slice copies nothing to the
device."""
