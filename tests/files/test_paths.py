from pathlib import Path

import pytest

from seq2seq.files import paths
from seq2seq.files.paths import expand_home, nearest_existing, resource


@pytest.mark.parametrize(
    ("name", "path"),
    [(name, name) for name in ("a.de", "my/~/a.de", "/~nobodyatall")] + [("~/a", "/home/me/a")],
)
def test_a_tilde_at_the_start_becomes_the_home_directory(monkeypatch, name, path):
    monkeypatch.setenv("HOME", "/home/me")

    assert expand_home(name, key="input") == Path(path)


@pytest.mark.parametrize(("name", "nearest"), [("a", "a"), ("a/b/c", "a"), ("b", "."), ("", ".")])
def test_the_nearest_existing_path_is_itself_or_a_parent(tmp_path, monkeypatch, name, nearest):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").write_text("a file counts too")

    assert nearest_existing(tmp_path / name) == tmp_path / nearest
    assert nearest_existing(Path(name)).absolute() == tmp_path / nearest


def test_resource_of_a_wheel_stands_in_the_package(tmp_path, monkeypatch):
    inside = tmp_path / "seq2seq" / "resources" / "configs"
    inside.mkdir(parents=True)
    (tmp_path / "configs").mkdir()
    monkeypatch.setattr(paths, "_PACKAGE", tmp_path / "seq2seq")

    assert resource("configs") == inside
