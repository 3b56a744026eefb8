"""The package onnxruntime-web, which the tests use only if it is on disk."""

from pathlib import Path

import pytest

from seq2seq.export.web_runtime import PACKAGE

CACHE = Path(__file__).resolve().parents[1] / "data/cache"
needs_web_runtime = pytest.mark.skipif(
    not (CACHE / PACKAGE).exists(),
    reason="needs onnxruntime-web: run python -m seq2seq.export.web_runtime data/cache",
)
