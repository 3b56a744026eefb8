import dataclasses
import itertools
from pathlib import Path

import pytest
import torch
from omegaconf import OmegaConf
from tiny_training import ROOT

from seq2seq.attention.base import attention_config_types
from seq2seq.config.schema import TrainConfig, build_model, load_config
from seq2seq.model.seq2seq import Seq2Seq
from seq2seq.search.searches import decoding_config_types
from seq2seq.studies.interventions import INTERVENTIONS

CONFIGS = ROOT / "configs"
COMMANDS = CONFIGS / "commands"
CHOICES = sorted(
    path.relative_to(CONFIGS).with_suffix("")
    for path in CONFIGS.glob("*/*.yaml")
    if path.parent != COMMANDS
)
FILES = ("data.train=[a,b]", "data.valid=[c,d]", "data.test=[e,f]")
"""Values that data=files requires."""


def names_of(group: str) -> list[str]:
    return sorted(path.stem for path in (CONFIGS / group).glob("*.yaml"))


def build(config: TrainConfig) -> Seq2Seq:
    return build_model(config, source_vocabulary_size=11, target_vocabulary_size=13)


def test_the_files_of_commands_are_apart_from_the_groups_of_hydra():
    commands = {path.stem for path in COMMANDS.iterdir()}

    assert [path.name for path in CONFIGS.glob("*.yaml")] == ["train.yaml"]
    assert commands <= {path.stem for path in (ROOT / "seq2seq" / "cli").glob("*.py")}


@pytest.mark.parametrize("choice", CHOICES, ids=str)
def test_every_choice_is_accepted_under_its_name(choice):
    group, name = choice.parts
    overrides = [f"{group}={name}", *(FILES if choice == Path("data/files") else ())]

    config = load_config(*overrides)

    if group in ("data", "tokenizer"):
        assert getattr(config, group).name == name
    elif group == "model":
        assert config.model.form == name


@pytest.mark.parametrize(
    ("group", "types"), [("attention", attention_config_types), ("decoding", decoding_config_types)]
)
def test_every_type_is_chosen_by_its_name_with_the_values_of_its_config(group, types):
    for name, config_type in types().items():
        assert getattr(load_config(f"{group}={name}"), group) == config_type()


# Every size doubles the same keys, so one model is enough for a larger one.
@pytest.mark.parametrize(("model", "size"), [("bahdanau", "small"), ("luong", "base")])
def test_every_attention_fits_every_model_of_every_size(model, size):
    config = load_config(f"model={model}", f"model_size={size}")
    ids, mask = torch.tensor([[5, 6, 3]]), torch.ones(1, 3, dtype=torch.bool)
    for attention_type in attention_config_types().values():
        built = build(dataclasses.replace(config, attention=attention_type())).eval()

        output = built(ids, mask, torch.tensor([[2, 7]]))

        assert output.attention_weights.shape == (1, built.attention.num_heads, 2, 3)
        assert output.readouts.isfinite().all()


@pytest.mark.parametrize("model", names_of("model"))
def test_sizes_double_from_small_which_is_the_default_to_base(model):
    config, base = load_config(f"model={model}"), load_config(f"model={model}", "model_size=base")

    assert sizes_of(config) == (256, 128, 256)
    assert sizes_of(base) == (512, 256, 512)
    assert config == load_config(f"model={model}", "model_size=small")


def sizes_of(config: TrainConfig) -> tuple[int, ...]:
    model = config.model
    return model.embedding_size, model.encoder.hidden_size, model.decoder.hidden_size


def test_files_are_ascii_and_indented_by_two():
    for path in CONFIGS.rglob("*.yaml"):
        for line in path.read_text(encoding="ascii").splitlines():
            assert (len(line) - len(line.lstrip())) % 2 == 0, path
            assert line == line.rstrip(), path


@pytest.mark.parametrize("study", ["study_attention_types", "study_length", "study_self_attention"])
def test_every_run_of_a_study_composes(study):
    content = OmegaConf.load(CONFIGS / "experiment" / f"{study}.yaml")
    params = {key: text.split(",") for key, text in content.hydra.sweeper.params.items()}
    assert len(params.pop("seed")) > 1
    types = params.pop("attention", [])  # each composes in the tests of its group
    assert set(types) <= set(attention_config_types())
    assert study != "study_attention_types" or set(types) == set(attention_config_types())
    for values in itertools.product(*params.values()):
        pairs = [f"{key}={value}" for key, value in zip(params, values, strict=True)]
        load_config(f"experiment={study}", *pairs)


def test_the_study_of_interventions_is_that_of_the_types_with_every_intervention():
    content = OmegaConf.load(CONFIGS / "experiment" / "study_interventions.yaml")

    names = {name.partition(":")[0] for name in content.hydra.callbacks.study.interventions}
    known = {
        name
        for name, found in INTERVENTIONS.items()
        # Examples of the docs may have registered theirs in this process.
        if found.__module__.startswith("seq2seq.") and not name.endswith("_head")
    }
    assert known == names
    assert content.defaults[0] == "study_attention_types"
    load_config("experiment=study_interventions")
