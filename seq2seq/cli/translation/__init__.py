"""The parts of translate.py: configuration, inputs, outputs and reports."""
