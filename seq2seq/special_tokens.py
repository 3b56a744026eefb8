"""Token ids that every vocabulary reserves, and their labels."""

PAD, UNK, BOS, EOS = 0, 1, 2, 3
SPECIAL_TOKENS = ("<pad>", "<unk>", "<s>", "</s>")
"""Labels of these ids, in their order."""
