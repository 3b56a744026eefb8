import json

import pytest
import torch
from same_run import act_in, is_equal
from tiny_training import read_tags, saved_weights, tiny_config, tiny_run

from seq2seq.config.schema import load_config
from seq2seq.config.serialization import load_saved_config
from seq2seq.model.seq2seq import Seq2Seq
from seq2seq.runtime.distributed import Ranks
from seq2seq.runtime.kernels.operations import kernels_are_fast
from seq2seq.runtime.process import DeviceMemoryError
from seq2seq.training.run import check_same_config, run_training
from seq2seq.training.updates import Updater


def test_a_run_directory_has_its_files(run):
    texts = {
        f"{split}.{kind}" for split in ("test", "valid") for kind in ("hyp", "npz", "ref", "src")
    }
    others = {"best.pt", "last.pt", "config.yaml", "results.json", "validations.json", "train.log"}

    assert {path.name for path in run.iterdir()} == texts | others | {"tensorboard"}


def test_tensorboard_gets_curves_texts_and_maps(run):
    tags = read_tags(run / "tensorboard")

    for index in range(2):
        assert f"valid_text/{index}/text_summary" in tags
        assert f"valid_attention/{index}" in tags
    assert "valid_text/2/text_summary" not in tags


def test_parts_that_do_not_fit_are_refused_before_data_are_read(tmp_path):
    files = ("data=files", "data.train=[missing]", "data.valid=[missing]")
    config = load_config("attention=none", "decoding=beam", "decoding.coverage_penalty=0.2", *files)

    with pytest.raises(ValueError, match=r"decoding\.coverage_penalty=0\.2 needs attention"):
        run_training(config, tmp_path / "run")


@pytest.mark.parametrize("kernels", ["fast", "plain"])
def test_a_run_uses_the_kernels_of_its_configuration(tmp_path, monkeypatch, kernels):
    used = []
    act_in(
        monkeypatch,
        Updater,
        "update_weights",
        call=1,
        action=lambda: used.append(kernels_are_fast()),
    )

    tiny_run(tmp_path, "training.max_updates=1", f"training.kernels={kernels}")

    assert used == [kernels == "fast"]


def test_equal_seeds_give_equal_runs(run, folder):
    weights = {}
    for name, seed in (("again", 1), ("other", 2)):
        path = folder / "runs" / name
        run_training(tiny_config(folder, "training.max_epochs=2", f"seed={seed}"), path)
        weights[name] = saved_weights(path / "best.pt")

    first = saved_weights(run / "best.pt")
    assert is_equal(weights["again"], first)
    assert not is_equal(weights["other"], first)


def test_resuming_automatically_begins_and_continues(tmp_path):
    run = tmp_path / "runs" / "tiny"
    found = []
    for maximum in (1, 3):
        tiny_run(tmp_path, f"training.max_updates={maximum}", "resume=auto")
        saved, results = load_saved_config(run / "config.yaml"), (run / "results.json").read_text()
        found.append((json.loads(results)["updates"], saved.resume))

    assert found == [(1, False), (3, False)]
    assert "resumed after update 1" in (run / "train.log").read_text()


def edited(change):
    """Return a function that changes the content of a checkpoint file."""

    def edit(path):
        content = torch.load(path, weights_only=True)
        change(content)
        torch.save(content, path)

    return edit


@pytest.mark.parametrize(
    "damage",
    [
        lambda path: path.write_bytes((path.parent / "best.pt").read_bytes()),
        lambda path: path.write_bytes(path.read_bytes()[:-100]),
        edited(lambda content: content["model"].popitem()),
        edited(lambda content: content["training"]["progress"].pop("interval")),
        edited(lambda content: content["training"].update(updater={"optimizer": {}})),
    ],
    ids=["no training state", "cut", "weights", "progress", "optimizer"],
)
def test_a_damaged_last_checkpoint_is_refused_by_name(folder, run, damage):
    last = run / "last.pt"
    content = last.read_bytes()
    damage(last)

    try:
        with pytest.raises(ValueError, match=rf"{last}") as refused:
            tiny_run(folder, "training.max_epochs=3", "resume=true")
    finally:
        last.write_bytes(content)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    ("resume", "missing"),
    [("true", ["last.pt"]), ("auto", ["last.pt"]), ("auto", ["last.pt", "results.json"])],
)
def test_a_run_without_its_last_checkpoint_does_not_start_again(tmp_path, resume, missing):
    given = ("training.max_updates=2", "training.validation.every_updates=1")
    tiny_run(tmp_path, *given)
    run = tmp_path / "runs" / "tiny"
    for name in missing:
        (run / name).unlink()

    with pytest.raises(FileNotFoundError, match=r"last\.pt"):
        tiny_run(tmp_path, *given, f"resume={resume}")
    assert not (run / "last.pt").exists()


@pytest.mark.parametrize(
    "place", [(Seq2Seq, "to"), (Updater, "load_state"), (Updater, "_step")], ids=str
)
def test_too_little_memory_for_the_model_or_its_optimizer_is_one_line(tmp_path, monkeypatch, place):
    """While a run is continued, this is also no damaged file."""

    def fail(*_: object) -> None:
        raise torch.OutOfMemoryError("CUDA out of memory")

    tiny_run(tmp_path, "training.max_updates=1")
    monkeypatch.setattr(*place, fail)

    with pytest.raises(DeviceMemoryError) as caught:
        tiny_run(tmp_path, "training.max_updates=2", "resume=true")

    assert str(caught.value) == (
        "the memory of a GPU is too small for the model and its optimizer; choose a smaller model, "
        "or lower training.batching.size"
    )


def test_another_configuration_than_the_first_process_is_refused_but_for_paths(
    tmp_path, monkeypatch
):
    own = tiny_config(tmp_path, "data.cache_dir=here", "checkpoint_dir=here")
    places = ("data.cache_dir=there", "checkpoint_dir=there", "data.root=there")
    firsts = [
        tiny_config(tmp_path, *places, "training.device=cpu"),
        tiny_config(tmp_path, "training.max_epochs=7"),
    ]
    monkeypatch.setattr(Ranks, "share_from_first", lambda *_: firsts.pop(0))

    check_same_config(own, Ranks(1, 1, 2))
    with pytest.raises(ValueError, match=r"rank 0's: training\.max_epochs .*; give all"):
        check_same_config(own, Ranks(1, 1, 2))
