"""`import seq2seq` offers a few names, and loads none of them before it is used."""

import subprocess
import sys

import pytest

import seq2seq


def test_all_names_are_loaded_from_their_modules():
    homes = {name for names in seq2seq._MODULES.values() for name in names}

    assert homes | {"__version__"} == set(seq2seq.__all__) == set(dir(seq2seq))
    for name in homes:
        assert getattr(seq2seq, name).__name__ == name


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'seq2seq' has no attribute 'Translater'"):
        _ = seq2seq.Translater


def test_import_loads_nothing_slow():
    code = "import seq2seq, sys; sys.exit('torch' in sys.modules or 'hydra' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
