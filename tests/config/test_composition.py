import pytest
from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from tiny_training import ROOT

from seq2seq.config.composition import compose_yaml, config_directory, to_dataclass
from seq2seq.config.schema import TrainConfig, register_schemas


@pytest.fixture(autouse=True)
def _schemas():
    register_schemas()


def test_the_directory_has_the_yaml_files():
    assert config_directory() == ROOT / "configs"
    assert (config_directory() / "train.yaml").is_file()


def test_composing_leaves_the_state_of_hydra_as_it_was():
    with initialize_config_dir(version_base="1.3", config_dir=str(config_directory())):
        outer = GlobalHydra.instance().hydra

        compose_yaml("train", [])

        assert outer is not None
        assert GlobalHydra.instance().hydra is outer


def test_a_composed_file_is_converted_to_its_dataclass():
    config = to_dataclass(compose_yaml("train", ["seed=7"]), TrainConfig)

    assert isinstance(config, TrainConfig)
    assert config.seed == 7


@pytest.mark.parametrize("key", ["extra", "attention.extra", "model.encoder.extra"])
def test_an_added_key_is_refused(key):
    composed = compose_yaml("train", [f"+{key}=1"])

    with pytest.raises(ValueError, match=f"^unknown key '{key}'; remove it$"):
        to_dataclass(composed, TrainConfig)
