import json
import os
import pickle
import subprocess
import sys
from importlib import import_module, invalidate_caches

import pytest

from seq2seq.config import plugin_modules

NAME = "seq2seq.config.plugin_modules.plugin_of_a_job"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.setattr(plugin_modules, "__path__", [])
    monkeypatch.setitem(os.environ, "SEQ2SEQ_PLUGIN_PATH", "")
    (tmp_path / "plugin_of_a_job.py").write_text("class Part: ...\n")
    (tmp_path / "json.py").write_text("raise AssertionError\n")
    yield tmp_path
    sys.modules.pop(NAME, None)


def test_file_is_a_module_and_hides_none_of_the_same_name(folder):
    plugin_modules.add_folder(str(folder))
    invalidate_caches()

    assert import_module(NAME).__file__ == str(folder / "plugin_of_a_job.py")
    assert str(folder) not in sys.path
    assert json.loads("[1]") == [1]


def test_process_that_is_started_later_can_read_a_pickled_class(folder):
    plugin_modules.add_folder(str(folder))
    invalidate_caches()
    path = folder / "part.pickle"
    path.write_bytes(pickle.dumps(import_module(NAME).Part))
    code = f"import pickle, json; print(pickle.load(open({str(path)!r}, 'rb')).__name__)"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.stdout == "Part\n", done.stderr
