"""The corpora of `data=files`: text files of the user, one corpus or several."""
