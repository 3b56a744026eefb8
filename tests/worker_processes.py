"""Start the processes of tests that train in several."""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from tiny_training import ROOT

COMPARABLE = (
    "training.validation.metric=loss",
    "training.threads=1",
    # Adam divides by the gradients' size and so makes rounding errors of small ones large.
    "training.optimizer.name=sgd",
    "model.dropout=0",
    "training.optimizer.learning_rate=0.5",
)
"""Overrides of runs that differ by rounding errors alone, with any number of processes."""


def start_python(
    arguments: Sequence[object], *, cwd: Path, environment: Mapping[str, str] | None = None
) -> subprocess.Popen[str]:
    """Start Python with one thread, which can import the package and the modules of the tests."""
    return subprocess.Popen(
        [sys.executable, *map(str, arguments)],
        cwd=cwd,
        env={
            **os.environ,
            "OMP_NUM_THREADS": "1",
            "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")]),
            **(environment or {}),
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
