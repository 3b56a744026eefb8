"""A restart by torchrun and a second run in its processes find no keys of the first group."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tiny_training import ROOT

VERSION = tuple(int(number) for number in torch.__version__.split(".")[:2])


@pytest.mark.skipif(VERSION < (2, 13), reason="a restarted group hangs with torch 2.6 and 2.7")
def test_processes_join_again_after_leaving_and_after_a_restart(tmp_path: Path) -> None:
    environment = {
        **os.environ,
        "OMP_NUM_THREADS": "1",
        "PYTHONPATH": os.pathsep.join([str(ROOT), str(ROOT / "tests")]),
    }
    script = Path(__file__).with_name("torchrun_worker.py")
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command = [sys.executable, *torchrun, "--max-restarts=1", str(script), str(tmp_path)]

    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=150, check=False
    )

    assert done.returncode == 0, done.stderr
    assert [(tmp_path / rank).read_text() for rank in "01"] == ["[3.0, 30.0]"] * 2
