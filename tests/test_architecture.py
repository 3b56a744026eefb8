import ast
import graphlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LAYERS = (
    {
        "allocator",
        "checks",
        "command_line",
        "dropout",
        "errors",
        "interrupts",
        "paths",
        "products",
        "seeding",
        "whole_files",
        "workers",
    },
    {"gru", "loop_products"},
    {"attention"},
    {"self_attention", "recurrence", "encoder", "decoder"},
    {"model", "data"},
    {
        "search",
        "evaluation",
        "alignment",
        "attention_statistics",
        "attention_page",
        "figures",
        "head_figure",
        "ensemble",
        "quantization",
        "forced_decoding",
        "streaming",
    },
    {
        "average",
        "batch_translation",
        "config",
        "phrases",
        "score_config",
        "system_scores",
        "training",
        "translating",
        "translation",
        "translator",
    },
    {"train.py", "translate.py"},
)
"""each imports from itself and from those before it"""
OWNERS = {
    "hydra": {"train", "translate", "seq2seq.config.schema", "seq2seq.config.errors"},
    "omegaconf": {"train", "translate", "seq2seq.config.schema", "seq2seq.config.errors"},
    "torchtext": {"seq2seq.data.tokenizers.torchtext_words"},
}
"""who alone may import these"""
SLOW = {"matplotlib", "requests", "sacrebleu", "sacremoses", "torchtext"}
"""what a start does not wait for: functions import them"""


def module_name(path):
    parts = path.relative_to(ROOT).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


PATHS = (*ROOT.glob("*.py"), *(ROOT / "seq2seq").rglob("*.py"))
MODULES = {module_name(path): path for path in PATHS}


def at_start(tree):
    """Yield the statements that are run when a module is imported, those in a `with` too."""
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


def layer_of(name):
    """Return the height of a module's part of the project: `seq2seq.data.tokenizers.words` -> that of data."""
    part = name.split(".")[1] if "." in name else f"{name}.py"
    heights = [height for height, parts in enumerate(LAYERS) if part in parts]
    assert heights, f"say in LAYERS where {part} stands"
    return heights[0]


def test_imports_point_one_way():
    upward = [
        f"{name} imports {imported}"
        for name in MODULES.keys() - {"seq2seq"}
        for imported in IMPORTS[name] & MODULES.keys()
        if layer_of(imported) > layer_of(name)
    ]

    assert upward == []


def test_imports_go_in_no_circle():
    ours = {name: found & MODULES.keys() - {name} for name, found in IMPORTS.items()}

    graphlib.TopologicalSorter(ours).prepare()


def test_attention_imports_nothing_of_ours():
    attention = [name for name in MODULES if name.startswith("seq2seq.attention")]
    imported = set().union(*(IMPORTS[name] for name in attention))

    ours = {name for name in imported if name.startswith("seq2seq")}
    assert {name for name in ours if not name.startswith("seq2seq.attention")} == set()


@pytest.mark.parametrize("package", OWNERS)
def test_package_is_imported_by_its_owners_alone(package):
    importers = {
        name
        for name, found in IMPORTS.items()
        if any(module.split(".")[0] == package for module in found)
    }

    assert importers - OWNERS[package] == set()


@pytest.mark.parametrize("start", ["train", "seq2seq.cli.task"])
def test_nothing_slow_is_loaded_before_it_is_used(start):
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
