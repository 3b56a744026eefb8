"""Draw attention as figures, and as HTML pages."""
