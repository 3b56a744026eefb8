"""The examples in docstrings print what they show."""

import doctest
import importlib
import pkgutil

import pytest

import seq2seq

PUBLIC = ("attention", "data", "evaluation", "inference", "search", "visualization")
MODULES = [
    name
    for _, name, is_package in pkgutil.walk_packages(seq2seq.__path__, "seq2seq.")
    if not is_package
]
EXAMPLES = {
    name: tests
    for name in MODULES
    if (
        tests := [
            each
            for each in doctest.DocTestFinder().find(importlib.import_module(name))
            if each.examples
        ]
    )
}


@pytest.mark.parametrize("module", EXAMPLES)
def test_examples_print_what_they_show(module, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    runner = doctest.DocTestRunner(optionflags=doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS)

    results = [runner.run(each) for each in EXAMPLES[module]]

    assert sum(each.failed for each in results) == 0


@pytest.mark.parametrize("package", PUBLIC)
def test_public_packages_have_examples(package):
    assert [name for name in EXAMPLES if name.startswith(f"seq2seq.{package}.")] != []
