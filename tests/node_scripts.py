"""Runs the scripts of the page that translates, in Node."""

import json
import shutil
import subprocess
from pathlib import Path

import pytest

import seq2seq.export

SCRIPTS = Path(seq2seq.export.__file__).parent / "web"
_NODE = shutil.which("node")
needs_node = pytest.mark.skipif(
    _NODE is None, reason="needs Node: no node on the path (Debian: apt-get install nodejs)"
)


def run_scripts(*scripts: str, function: str, data: object) -> object:
    """Return what a function in JavaScript makes of the data, after the scripts have run."""
    runner = Path(__file__).with_name("run_scripts.js")
    command = [str(_NODE), str(runner), str(SCRIPTS), *scripts, function]
    found = subprocess.run(
        command, input=json.dumps(data).encode(), capture_output=True, timeout=600
    )
    assert found.returncode == 0, found.stderr.decode()
    return json.loads(found.stdout)
