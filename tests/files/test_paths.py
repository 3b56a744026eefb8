from pathlib import Path

import pytest

from seq2seq.files.paths import expand_home, nearest_existing


@pytest.mark.parametrize("name", ["a.de", "my/~/a.de", "/~nobodyatall"])
def test_other_paths_stay_as_they_are(name):
    assert expand_home(name, key="input") == Path(name)


def test_the_home_directory_takes_the_place_of_its_sign(monkeypatch):
    monkeypatch.setenv("HOME", "/home/me")

    assert expand_home("~/a.de", key="input") == Path("/home/me/a.de")


def test_a_user_whom_nobody_knows_is_named_with_the_key():
    with pytest.raises(ValueError, match=r"^input=~nobodyatall/a\.de: ~nobodyatall is no home"):
        expand_home("~nobodyatall/a.de", key="input")


@pytest.mark.parametrize(("name", "nearest"), [("a", "a"), ("a/b/c", "a"), ("b", "."), ("", ".")])
def test_the_nearest_existing_path_is_itself_or_a_parent(tmp_path, monkeypatch, name, nearest):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").write_text("a file counts too")

    assert nearest_existing(tmp_path / name) == tmp_path / nearest
    assert nearest_existing(Path(name)).absolute() == tmp_path / nearest
