"""The runs of a study: read, grouped, compared and shown in tables and on a page."""
