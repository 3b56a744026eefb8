from pathlib import Path

import pytest
from tiny_export import make_exportable

from seq2seq.checkpoints.checkpoint import save_checkpoint
from seq2seq.export.exporting import export_model


@pytest.fixture(scope="session")
def checkpoint_path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("tiny") / "best.pt"
    save_checkpoint(path, make_exportable())
    return path


@pytest.fixture(scope="session")
def exported(checkpoint_path: Path) -> Path:
    """Return a folder that tests only read."""
    folder = checkpoint_path.parent / "exported"
    export_model(checkpoint_path, folder)
    return folder
