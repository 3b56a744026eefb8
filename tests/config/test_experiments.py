"""The studies in configs/experiment compose, run by run."""

import itertools

import pytest
from omegaconf import OmegaConf

from seq2seq.attention import attention_config_types
from seq2seq.config.composition import config_directory
from seq2seq.config.schema import load_config

STUDIES = sorted(path.stem for path in (config_directory() / "experiment").glob("study_*.yaml"))


def swept(study):
    """Return the values of each swept key."""
    content = OmegaConf.load(config_directory() / "experiment" / f"{study}.yaml")
    return {str(key): str(text).split(",") for key, text in content.hydra.sweeper.params.items()}


def test_there_are_studies():
    assert {"study_attention_types", "study_self_attention"} <= set(STUDIES)


@pytest.mark.parametrize("study", STUDIES)
def test_every_run_of_a_study_composes(study):
    params = {key: values for key, values in swept(study).items() if key != "attention"}
    for values in itertools.product(*params.values()):
        pairs = [f"{key}={value}" for key, value in zip(params, values, strict=True)]
        load_config(f"experiment={study}", *pairs)


def test_every_registered_type_is_in_the_study_of_types():
    assert set(attention_config_types()) <= set(swept("study_attention_types")["attention"])


def test_every_study_has_several_seeds():
    assert all(len(swept(study)["seed"]) > 1 for study in STUDIES)
