"""What translate.py does: its configuration, inputs, outputs and reports."""
