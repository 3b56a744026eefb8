"""Faster formulations of single operations; each has a plain reference in the tests."""
