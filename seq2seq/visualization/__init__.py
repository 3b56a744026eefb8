"""Figures and pages that show attention."""
