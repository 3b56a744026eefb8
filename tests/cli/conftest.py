import pytest
from tiny_translator import write_checkpoint


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    """Write a tiny model and return the path of its run."""
    return write_checkpoint(tmp_path_factory.mktemp("checkpoints") / "run")
