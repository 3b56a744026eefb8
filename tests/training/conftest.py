"""A run of two epochs, which tests only read."""

import pytest
from tiny_training import tiny_run


@pytest.fixture(scope="session")
def trained(tmp_path_factory):
    """Train once; return the folder with the corpus and the lines on stderr."""
    folder = tmp_path_factory.mktemp("trained")
    with pytest.MonkeyPatch.context() as patch:
        lines: list[str] = []
        patch.setattr("tqdm.tqdm.write", lambda text, file: lines.append(text))
        tiny_run(folder, "training.max_epochs=2", "training.validation.num_samples=2")
    return folder, "\n".join(lines)


@pytest.fixture
def folder(trained):
    return trained[0]


@pytest.fixture
def log_lines(trained):
    return trained[1]


@pytest.fixture
def run(folder):
    return folder / "runs" / "tiny"
