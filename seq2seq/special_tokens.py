"""Token ids that every vocabulary reserves, and their labels."""

PAD, UNK, BOS, EOS = 0, 1, 2, 3
SPECIAL_TOKENS = ("<pad>", "<unk>", "<s>", "</s>")
"""Labels of these ids, in their order."""
NEVER_PREDICTED = slice(PAD, BOS + 1, BOS - PAD)
"""PAD and BOS, which no translation contains; a list of ids would be copied to the device."""
