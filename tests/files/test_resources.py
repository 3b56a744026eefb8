import pytest

from seq2seq.files import resources


@pytest.mark.parametrize("path", ["configs/train.yaml", "data/german-english.grammar"])
def test_resource_of_a_checkout_stands_beside_the_package(path):
    assert resources.resource(path).is_file()


def test_resource_of_a_wheel_stands_in_the_package(tmp_path, monkeypatch):
    inside = tmp_path / "seq2seq" / "resources" / "configs"
    inside.mkdir(parents=True)
    (tmp_path / "configs").mkdir()
    monkeypatch.setattr(resources, "_PACKAGE", tmp_path / "seq2seq")

    assert resources.resource("configs") == inside
