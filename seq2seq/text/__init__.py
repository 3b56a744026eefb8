"""What happens to a text before and after the model; loads without torch."""
