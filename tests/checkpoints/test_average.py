import dataclasses

import pytest
import torch
from tiny_translator import SENTENCES, make_checkpoint

from seq2seq.checkpoints.average import average_checkpoints, average_files
from seq2seq.checkpoints.checkpoint import load_checkpoint, save_checkpoint
from seq2seq.data import CharacterTokenizer, TokenizerPair
from seq2seq.inference.translator import Translator
from seq2seq.runtime.numerics import Device

TIED = ("decoder.embedding.weight", "decoder.output.weight")


@pytest.fixture(scope="module")
def whole():
    return make_checkpoint()


def scaled(checkpoint, factor):
    """Return a checkpoint of the same model with scaled weights."""
    state = {name: factor * weights for name, weights in checkpoint.model_state.items()}
    return dataclasses.replace(checkpoint, model_state=state)


def write(path, checkpoint):
    save_checkpoint(path, checkpoint)
    return str(path)


@pytest.fixture
def paths(whole, tmp_path):
    """Return three files with different weights; the first one has a training state."""
    checkpoints = [scaled(whole, factor) for factor in (1, -0.7, 2.3)]
    progress = {"fingerprint": "x", "progress": {"update": 7}, "updater": {}}
    checkpoints[0] = dataclasses.replace(checkpoints[0], training_state=progress)
    return [
        write(tmp_path / f"{name}.pt", each) for name, each in zip("abc", checkpoints, strict=True)
    ]


def test_every_weight_is_the_mean(paths, tmp_path):
    average_files(paths, output=tmp_path / "mean.pt")

    mean = load_checkpoint(tmp_path / "mean.pt").model_state
    states = [load_checkpoint(path).model_state for path in paths]
    assert mean.keys() == states[0].keys()
    for name, weights in mean.items():
        expected = torch.stack([state[name].double() for state in states]).mean(dim=0)
        assert weights.dtype == torch.float32
        torch.testing.assert_close(weights, expected.float(), rtol=0, atol=0)


@pytest.mark.parametrize("copies", [1, 2, 3])
def test_the_average_of_copies_equals_each_copy(copies, whole):
    mean = average_checkpoints([whole] * copies)

    for name, weights in whole.model_state.items():
        assert torch.equal(mean.model_state[name], weights), name


def test_sums_are_exact(whole):
    def filled(value):
        state = {name: torch.full_like(each, value) for name, each in whole.model_state.items()}
        return dataclasses.replace(whole, model_state=state)

    mean = average_checkpoints([filled(value) for value in (2.0**24, 1.0, 1.0)])

    bias = mean.model_state["bridge.projection.bias"]
    assert bias.tolist() == [torch.tensor((2.0**24 + 2) / 3).item()] * len(bias)


def test_the_averaged_checkpoints_do_not_change(whole):
    first, second = scaled(whole, 1), scaled(whole, 2)

    average_checkpoints([first, second])

    for name, weights in whole.model_state.items():
        assert torch.equal(first.model_state[name], weights), name


def test_tied_weights_stay_tied_and_are_stored_once(paths, tmp_path):
    average_files(paths, output=tmp_path / "mean.pt")

    state = torch.load(tmp_path / "mean.pt", weights_only=True)["model"]
    assert state[TIED[0]].data_ptr() == state[TIED[1]].data_ptr()


def test_the_file_translates_and_has_no_training_state(paths, tmp_path):
    average_files(paths, output=tmp_path / "mean.pt")

    mean = load_checkpoint(tmp_path / "mean.pt")
    translations = Translator.load(tmp_path / "mean.pt", device=Device.cpu).translate(SENTENCES)
    assert len(list(translations)) == len(SENTENCES)
    assert mean.training_state is None
    assert mean.config == load_checkpoint(paths[0]).config


def test_a_directory_means_its_best_checkpoint(paths, whole, tmp_path):
    (tmp_path / "run").mkdir()
    write(tmp_path / "run" / "best.pt", scaled(whole, 3))

    average_files([paths[0], tmp_path / "run"], output=tmp_path / "mean.pt")

    mean = load_checkpoint(tmp_path / "mean.pt").model_state
    torch.testing.assert_close(mean[TIED[0]], 2 * whole.model_state[TIED[0]])


def test_run_name_and_resume_may_differ(paths, whole, tmp_path):
    renamed = dataclasses.replace(whole.config, run_name="other", resume=True)
    other = write(tmp_path / "other.pt", dataclasses.replace(whole, config=renamed))

    average_files([paths[0], other], output=tmp_path / "mean.pt")

    assert load_checkpoint(tmp_path / "mean.pt").config == whole.config


@pytest.mark.parametrize("change", ["size", "seed", "attention", "tokenizer"])
def test_other_models_are_refused_with_both_names(change, paths, whole, tmp_path):
    checkpoint = make_checkpoint("dot") if change == "attention" else whole
    config = checkpoint.config
    if change == "seed":
        config = dataclasses.replace(config, seed=9)
    elif change == "size":
        decoder = dataclasses.replace(config.model.decoder, num_layers=2)
        config = dataclasses.replace(
            config, model=dataclasses.replace(config.model, decoder=decoder)
        )
    elif change == "tokenizer":
        tokenizers = TokenizerPair(
            CharacterTokenizer("zbcdefghijklmnopqrstuvwxya "), checkpoint.tokenizers.target
        )
        checkpoint = dataclasses.replace(checkpoint, tokenizers=tokenizers)
    other = write(tmp_path / "other.pt", dataclasses.replace(checkpoint, config=config))

    with pytest.raises(ValueError) as refused:
        average_files([paths[0], other], output=tmp_path / "mean.pt")

    reasons = {
        "size": f"{paths[0]}: model.decoder.num_layers (1 -> 2); average checkpoints of one run",
        "seed": f"{paths[0]}: seed (1 -> 9); average checkpoints of one run",
        "attention": f"{paths[0]}: attention.name (additive -> dot), ",
        "tokenizer": f"{paths[0]}; only models with the same tokenizers can be ",
    }
    assert str(refused.value).startswith(f"checkpoint={other} has ")
    assert f" than checkpoint={reasons[change]}" in str(refused.value)
    assert not (tmp_path / "mean.pt").exists()


def test_a_missing_file_is_an_error_with_its_path(paths, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"^checkpoint=\S*/nowhere\.pt: no such file"):
        average_files([paths[0], tmp_path / "nowhere.pt"], output=tmp_path / "mean.pt")

    assert not (tmp_path / "mean.pt").exists()


def test_an_existing_file_is_not_overwritten(paths):
    with pytest.raises(FileExistsError, match=f"^output {paths[0]} exists already; delete it or"):
        average_files(paths[1:], output=paths[0])

    assert load_checkpoint(paths[0]).training_state is not None


def test_an_output_without_a_directory_is_refused(paths, tmp_path):
    with pytest.raises(FileNotFoundError, match=rf"there is no directory {tmp_path}/no; make it$"):
        average_files(paths, output=tmp_path / "no" / "mean.pt")
