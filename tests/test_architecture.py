import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
OWNERS = {
    "hydra": {"seq2seq.config", "seq2seq.studies", "seq2seq.cli"},
    "omegaconf": {"seq2seq.config", "seq2seq.studies", "seq2seq.cli"},
    "torchtext": {"seq2seq.data.tokenizers"},
}
"""The packages that may import these; import-linter checks the rest (pyproject.toml)."""
SLOW = {"matplotlib", "sacrebleu", "sacremoses", "torchtext"}
"""Packages that are imported in functions, because they load slowly."""


def module_name(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


PATHS = (*ROOT.glob("*.py"), *(ROOT / "seq2seq").rglob("*.py"))
MODULES = {module_name(path): path for path in PATHS}


def at_start(tree):
    """Yield the statements that run when a module is imported, those in a `with` too."""
    for node in tree.body:
        yield from node.body if isinstance(node, ast.With) else [node]


def imports(name, *, in_functions=True):
    """Return every module that a module imports."""
    found = set()
    tree = ast.parse(MODULES[name].read_text(encoding="utf-8"))
    for node in ast.walk(tree) if in_functions else at_start(tree):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            submodules = {f"{node.module}.{alias.name}" for alias in node.names} & MODULES.keys()
            found |= submodules or {node.module or "relative"}
    return found


IMPORTS = {name: imports(name) for name in MODULES}


@pytest.mark.parametrize("package", OWNERS)
def test_package_is_imported_only_by_its_owners(package):
    others = {
        name
        for name, found in IMPORTS.items()
        if any(module.split(".")[0] == package for module in found)
        and not name.startswith(tuple(f"{owner}." for owner in OWNERS[package]))
    }

    assert others == set()


@pytest.mark.parametrize("start", ["train", "seq2seq.cli.translate", "seq2seq.serving.app"])
def test_slow_packages_are_not_loaded_at_start(start):
    loaded, waiting = set(), {start}
    while waiting:
        found = imports(waiting.pop(), in_functions=False)
        packages = {name.rpartition(".")[0] for name in found}
        waiting |= ((found | packages) & MODULES.keys()) - loaded
        loaded |= found | packages

    assert {name.split(".")[0] for name in loaded} & SLOW == set()


def test_imports_are_absolute():
    assert [name for name, found in IMPORTS.items() if "relative" in found] == []


def test_no_module_is_named_utils():
    parts = {part for name in MODULES for part in name.split(".")}

    assert parts.isdisjoint({"utils", "util", "helpers", "common", "misc"})


def test_every_room_has_tests():
    rooms = {path.parent.relative_to(ROOT / "seq2seq") for path in PATHS if "seq2seq" in path.parts}

    assert [room for room in rooms if not list((ROOT / "tests" / room).glob("test_*.py"))] == []


def test_few_files_know_of_spans_and_of_splitting():
    def knowing(pattern):
        return {
            name
            for name, path in MODULES.items()
            if not name.startswith("seq2seq.text.")
            and path.name not in ("config.py", "schema.py")
            and re.search(rf"\b({pattern})\b", path.read_text(encoding="utf-8"))
        }

    assert knowing("spans") <= {"seq2seq.data.tokenizers.ruled"}
    assert knowing("split_sentences|has_words|join_sentences") == set()
