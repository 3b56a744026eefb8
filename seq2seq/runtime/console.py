"""Log lines for people: the message, and its level only if it is a warning or worse."""

import logging
import sys


class ConsoleFormatter(logging.Formatter):
    """Writes `message`, or `warning: message` from the level of warnings on."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the text of a record."""
        text = super().format(record)
        return f"{record.levelname.lower()}: {text}" if record.levelno >= logging.WARNING else text


def log_to_stderr() -> None:
    """Send all log lines from level INFO on to stderr, unless logging is set up already."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(ConsoleFormatter())
    logging.basicConfig(level=logging.INFO, handlers=[handler])
