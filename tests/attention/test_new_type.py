"""Check that a new type needs one module, one YAML file and one import, and no new test.

Two types are added to a copy of the project: a correct one, and one that attends to padding.
"""

import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).parents[2]
COPIED = (
    "pyproject.toml",
    "configs",
    "seq2seq",
    "tests/attention",
    *(str(path.relative_to(ROOT)) for path in ROOT.glob("tests/tiny_*.py")),
    "tests/config/test_yaml.py",
)
MODULE = '''"""Cosine attention."""

from dataclasses import dataclass

from torch import Tensor, nn
from torch.nn import functional

from seq2seq.attention.base import Attention, AttentionConfig, register_attention

SHORTEST = 1e-2  # torch's default of 1e-12 is 0 in fp16


@dataclass(kw_only=True, slots=True)
class {config}(AttentionConfig):
    """Cosine attention."""

    name: str = "{name}"
    sharpness: float = 5.0


@register_attention({config})
class {attention}(Attention):
    """Score by the angle between the query and a projected key."""

    def __init__(self, config, *, query_size, key_size, value_size):
        super().__init__(config, query_size=query_size, key_size=key_size, value_size=value_size)
        self.sharpness = config.sharpness
        self.key_projection = nn.Linear(key_size, query_size, bias=False)

    def project_keys(self, keys: Tensor) -> Tensor:
        return functional.normalize(self.key_projection(keys), dim=-1, eps=SHORTEST)

    def score(self, query: Tensor, keys: Tensor) -> Tensor:
        queries = functional.normalize(query, dim=-1, eps=SHORTEST)
        return self.sharpness * queries @ keys.mT
'''
BLIND = """
    def forward(self, query, memory):
        weights = self.score(query, memory.keys).softmax(dim=-1)
        return self.dropout(weights) @ memory.values, weights.unsqueeze(1)
"""
YAML = """defaults:
  - /schema/attention/{name}@_here_
  - _self_
"""


def add_type(root, name, *, body=""):
    """Write the module, the YAML file and the import of a new type."""
    package = root / "seq2seq" / "attention"
    names = {"name": name, "config": f"{name.title()}Config", "attention": f"{name.title()}Type"}
    (package / f"{name}.py").write_text(MODULE.format(**names) + body)
    (root / "configs" / "attention" / f"{name}.yaml").write_text(YAML.format(name=name))
    with (package / "__init__.py").open("a") as init:
        init.write(f"from seq2seq.attention import {name}\n")


def run_tests(root, expression):
    """Return the result of each selected test, passed or failed."""
    command = (sys.executable, "-m", "pytest", "-p", "no:xdist", "-p", "no:cacheprovider")
    report = root / "report.xml"
    done = subprocess.run(
        [*command, "-k", expression, f"--junit-xml={report}", "--tb=no", "tests"],
        cwd=root,
        env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert done.returncode in (0, 1), done.stdout + done.stderr
    cases = ElementTree.parse(report).iter("testcase")
    return {
        f"{case.get('classname')}::{case.get('name')}": "passed" if len(case) == 0 else "failed"
        for case in cases
    }


@pytest.fixture(scope="module")
def endings(tmp_path_factory):
    root = tmp_path_factory.mktemp("project")
    for name in COPIED:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, root / name)
    (root / "tests" / "attention" / "test_new_type.py").unlink()
    add_type(root, "cosine")
    add_type(root, "blind", body=BLIND)
    # For the blind type, hypothesis would take long to shrink its failing cases.
    return run_tests(root, "cosine or (blind and keeps_the_contract) or (blind and double_loop)")


def of_type(endings, name):
    return {test: ending for test, ending in endings.items() if name in test.partition("[")[2]}


def test_every_file_that_tests_all_types_tests_the_new_one(endings):
    counts = Counter(test.partition("::")[0].split(".")[-1] for test in of_type(endings, "cosine"))

    assert counts.keys() == {
        "test_yaml",
        "test_contract",
        "test_double_loop",
        "test_extremes",
        "test_additive",
    }
    assert counts["test_contract"] > 10
    assert counts["test_double_loop"] == 30  # each normaliser with each kind of mask
    assert counts.total() > 45


def test_correct_type_passes(endings):
    assert [test for test, end in of_type(endings, "cosine").items() if end != "passed"] == []


@pytest.mark.parametrize(
    "promise",
    [
        "test_type_keeps_the_contract[blind]",
        "test_context_and_weights_equal_a_double_loop[blind-fp64-lengths]",
    ],
)
def test_type_that_attends_to_padding_fails(endings, promise):
    (ending,) = [ending for test, ending in endings.items() if test.endswith(f"::{promise}")]

    assert ending == "failed"
