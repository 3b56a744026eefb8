"""The version of the package; a checkpoint records the version that wrote it."""

__version__ = "0.1.0"
