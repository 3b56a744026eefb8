"""Fixtures of all tests."""

import copy
import gc
import logging
import os
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from seq2seq.runtime.kernels import Kernels
from seq2seq.runtime.kernels.operations import use_kernels

# A test's result does not depend on the speed of the machine.
settings.register_profile("untimed", deadline=None)
settings.load_profile("untimed")

# A background job of a script, such as `nohup make test &`, ignores SIGINT, and so would the
# processes that tests start and interrupt; a handler of this process they do not inherit.
signal.signal(signal.SIGINT, signal.default_int_handler)
if os.name != "nt":  # nohup ignores SIGHUP too
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(autouse=True)
def _state_of_the_process() -> Iterator[None]:
    """Undo a choice of kernels, and what commands and benchmarks change in their process."""
    yield
    os.environ.pop("HYDRA_FULL_ERROR", None)  # set by train.py
    if os.name != "nt":
        signal.signal(signal.SIGHUP, signal.SIG_DFL)  # ignored by seq2seq-serve
    gc.enable()
    use_kernels(Kernels.fast)
    for name in ("seq2seq", "seq2seq.inference"):
        logging.getLogger(name).setLevel(logging.NOTSET)


@pytest.fixture
def forgets_plugins(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Forget at the end every plug-in that the test loads in this process."""
    from hydra.core.config_store import ConfigStore

    from seq2seq.attention.base import ATTENTION
    from seq2seq.config import plugin_modules
    from seq2seq.config.schema import load_config
    from seq2seq.data.tokenizers.interface import TOKENIZERS
    from seq2seq.search.searches import SEARCHES

    monkeypatch.setattr(plugin_modules, "__path__", [])
    load_config()  # Hydra and the schema fill the store when they are first used
    store = ConfigStore.instance()
    monkeypatch.setattr(store, "repo", copy.deepcopy(store.repo))
    for parts in (ATTENTION, SEARCHES, TOKENIZERS):
        monkeypatch.setattr(parts, "_parts", dict(parts._parts))
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        if name.startswith(f"{plugin_modules.__name__}."):
            del sys.modules[name]


@pytest.fixture(scope="session")
def checkpoint_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a tiny checkpoint that can be exported."""
    from tiny_export import make_exportable

    from seq2seq.inference.checkpoint import save_checkpoint

    path = tmp_path_factory.mktemp("tiny") / "best.pt"
    save_checkpoint(path, make_exportable())
    return path


@pytest.fixture(scope="session")
def exported(checkpoint_path: Path) -> Path:
    """Return the folder of an exported checkpoint, which takes seconds; tests only read it."""
    from seq2seq.export.exporting import export_model

    folder = checkpoint_path.parent / "exported"
    export_model(checkpoint_path, folder)
    return folder


@pytest.fixture(scope="session")
def page(exported: Path) -> Path:
    """Return a page that translates with the exported model, for tests that only read it."""
    from tiny_export import EXAMPLES
    from web_runtime_cache import CACHE

    from seq2seq.export.web_page import write_page
    from seq2seq.export.web_runtime import load_web_runtime

    path = exported.parent / "page.html"
    write_page(exported, path, runtime=load_web_runtime(CACHE), examples=EXAMPLES)
    return path


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Run the longest modules first, so that no process works on one when all others are done."""
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: (item.path.name != "test_readme.py", item.path not in slow))
