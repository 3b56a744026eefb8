"""A translation service over HTTP, with LibreTranslate's interface and one of its own."""
