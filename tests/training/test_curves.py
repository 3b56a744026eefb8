import dataclasses
import html
import math
import re
import sys
import time
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch
from markdown import markdown
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from tiny_training import event_files, read_scalars, read_tags, tiny_config, tiny_run

from seq2seq.data.tokenizers.words import CharacterTokenizer
from seq2seq.inference.translations import EncodedLine, make_sentence
from seq2seq.search.config import Hypothesis
from seq2seq.training import curves
from seq2seq.training.curves import (
    Service,
    TensorBoard,
    Tracker,
    new_event_file,
    open_tracker,
)
from seq2seq.training.progress import Interval, Progress
from seq2seq.training.validation import Evaluation, Sample

HEADS = [
    {"aer": 0.125, "entropy": 0.5, "end": 0.75},
    {"aer": 0.625, "entropy": 1.5, "end": 0.375},
    {"aer": 0.5, "entropy": 4.0, "end": 0.0},
]


SCORES = {"bleu": 12.34, "loss": 1.5, "entropy": 2.0, "aer": 0.25}


def sample(ids: list[int], weights: torch.Tensor) -> Sample:
    source, reference = EncodedLine("a", [4]), Hypothesis([4], -1.0, -1.0, True, weights)
    tokenizers = CharacterTokenizer("ab"), CharacterTokenizer("xy")
    found = Hypothesis(ids, -1.0, -1.0, len(ids) + 1 == weights.shape[1], weights)
    return Sample(
        *(make_sentence(source, [each], tokenizers=tokenizers) for each in (found, reference))
    )


def evaluation(*, num_heads: int = 2) -> Evaluation:
    return Evaluation(
        statistics={},
        translations=[],
        scores=SCORES,
        heads=HEADS[:num_heads],
        signature="nrefs:1",
        samples=[
            sample([4, 5], torch.full((num_heads, 3, 2), 0.5)),
            sample([4, 4], torch.full((num_heads, 2, 2), 0.5)),
            sample([], torch.zeros(num_heads, 0, 2)),
        ],
    )


@pytest.mark.parametrize(("num_guided", "overflows"), [(0, 0), (3, 1), (3, 2)])
def test_an_interval_draws_its_means(tmp_path, num_guided, overflows):
    interval = Interval(
        updates=2,
        target_tokens=5,
        gradient_norm=0.6,
        overflows=overflows,
        losses={"loss": (7.5, 5), "guided_attention_loss": (0.75, num_guided)},
        seconds=0.25,
    )

    with TensorBoard(tmp_path, first_update=1) as board:
        progress = Progress(update=4, interval=interval, seconds=90.0, target_tokens=123)
        board.updates(progress, learning_rate=0.1, teacher_forcing_ratio=0.9)

    points = {tag: curve[4] for tag, curve in read_scalars(tmp_path).items()}
    expected = {
        "main/train_loss": 1.5,
        "train/loss": 1.5,
        "train/perplexity": math.exp(1.5),
        "train/learning_rate": 0.1,
        "train/target_tokens_per_second": 20.0,
        "train/teacher_forcing_ratio": 0.9,
        "train/minutes": 1.5,
        "train/target_tokens": 123,
    }
    if num_guided:
        expected["train/guided_attention_loss"] = 0.25
    if overflows < 2:
        expected["train/gradient_norm"] = 0.6 / (2 - overflows)
    assert points == pytest.approx(expected)


@pytest.mark.parametrize("num_heads", [0, 1, 3])
def test_a_validation_draws_its_scores_and_each_of_several_heads(tmp_path, num_heads):
    with TensorBoard(tmp_path, first_update=1) as board:
        board.validation(evaluation(num_heads=num_heads), update=7)

    expected = {f"valid/{name}": value for name, value in SCORES.items()}
    expected |= {"main/valid_bleu": SCORES["bleu"], "main/valid_loss": SCORES["loss"]}
    figure = set()
    if num_heads > 1:
        figure = {"valid/heads"}
        for number, head in enumerate(HEADS, start=1):
            expected |= {f"valid/{name}/head_{number}": value for name, value in head.items()}
    points = {tag: curve[7] for tag, curve in read_scalars(tmp_path).items()}
    assert points == pytest.approx(expected)
    assert read_tags(tmp_path) == expected.keys() | figure


@pytest.mark.parametrize(
    ("num_heads", "maps"), [(0, []), (1, [""]), (3, ["/head_1", "/head_2", "/head_3"])]
)
def test_samples_are_texts_and_one_map_per_head(tmp_path, num_heads, maps):
    """The last of the three samples has no token, and so no map."""
    with TensorBoard(tmp_path, first_update=1) as board:
        board.samples(evaluation(num_heads=num_heads), update=3)

    tags = read_tags(tmp_path)
    assert {f"valid_text/{index}/text_summary" for index in range(3)} <= tags
    drawn = {tag for tag in tags if tag.startswith("valid_attention/")}
    assert drawn == {f"valid_attention/{index}{head}" for index in range(2) for head in maps}


@pytest.mark.parametrize(
    "shown",
    [
        "**bold** call __init__ with `x`, see [a](http://b) and ![c](d)",
        r"a\*b \\ c\ ",
        "<2de> x & y &amp; z &#42; <script>alert(1)</script>",
        "# title | 1. item | - a + b ~~c~~ > d",
        "||| --- {.x} $a$ <a@b.c> *_`",
    ],
)
def test_a_sample_shows_literal_text(tmp_path, shown):
    [translation, reference] = sample([4], torch.full((1, 2, 2), 0.5))
    texts = translation._replace(source=shown)
    drawn = dataclasses.replace(evaluation(), samples=[Sample(texts, reference)])

    with TensorBoard(tmp_path, first_update=1) as board:
        board.samples(drawn, update=3)

    [path] = event_files(tmp_path)
    values = [value for event in EventFileLoader(str(path)).Load() for value in event.summary.value]
    [written] = next(each for each in values if "text" in each.tag).tensor.string_val
    page = markdown(written.decode(), extensions=["tables", "fenced_code"])  # as TensorBoard does
    first = html.unescape(re.sub(r"<[^>]+>", "", page)).splitlines()[0]
    assert first == f"source {shown}"


def test_tensorboard_reads_what_was_flushed_before_a_kill(tmp_path):
    with TensorBoard(tmp_path, first_update=1) as board:
        board.position("valid", Progress(update=3, seconds=60.0))
        board.flush()

        assert read_scalars(tmp_path)["valid/minutes"] == {3: 1.0}  # the file is still open


def test_the_names_of_later_files_follow_even_if_the_clock_was_set_back(tmp_path, monkeypatch):
    names = []
    for nanoseconds in (2_000, 1_000, 9_000):
        monkeypatch.setattr(time, "time_ns", lambda nanoseconds=nanoseconds: 10**18 + nanoseconds)
        path = new_event_file(tmp_path)
        path.touch()
        names.append(path.name)

    assert names == sorted(names)


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a full device")
def test_a_full_disk_is_an_error_of_the_call_that_meets_it(tmp_path, monkeypatch):
    monkeypatch.setattr(curves, "new_event_file", lambda folder: Path("/dev/full"))
    board = TensorBoard(tmp_path, first_update=1)

    with pytest.raises(OSError, match="/dev/full") as raised, board:
        pass

    assert raised.value.filename == "/dev/full"


class Account:
    """A replacement of a service, which records its calls."""

    def __init__(self):
        self.runs, self.points, self.configs, self.ended = [], [], [], 0

    def begin(self, known, name, config=None):
        self.runs.append((known, name))
        self.configs += [config] if config else []
        return known or "k3y"

    def send(self, values, step):
        self.points += [(tag, step, value) for tag, value in values.items()]

    def end(self):
        self.ended += 1


def add_module(monkeypatch, name, **members):
    module = ModuleType(name)
    module.__spec__ = ModuleSpec(name, None, origin="stand-in")
    vars(module).update(members)
    monkeypatch.setitem(sys.modules, name, module)


@pytest.fixture
def account(monkeypatch):
    account = Account()

    def init(*, id, resume, name, config):
        assert resume == "allow"
        found = account.begin(id, name, config)
        return SimpleNamespace(id=found, log=account.send, finish=account.end)

    def start_run(*, run_id, run_name):
        return SimpleNamespace(info=SimpleNamespace(run_id=account.begin(run_id, run_name)))

    add_module(monkeypatch, "wandb", init=init)
    add_module(
        monkeypatch,
        "mlflow",
        start_run=start_run,
        log_params=account.configs.append,
        log_metrics=account.send,
        end_run=account.end,
    )
    return account


@pytest.mark.parametrize("monitor", ["wandb", "mlflow"])
def test_a_service_gets_every_point_once_also_when_the_run_is_resumed(tmp_path, account, monitor):
    key = f"training.monitor={monitor}"
    tiny_run(tmp_path, key, "training.max_epochs=1")
    tiny_run(tmp_path, key, "training.max_epochs=2", "resume=true")

    curves = read_scalars(tmp_path / "runs" / "tiny" / "tensorboard")
    expected = {
        (tag, update)
        for tag, points in curves.items()
        for update in points
        if tag.startswith(("train/", "valid/"))
    }
    assert len(account.points) == len(expected) > 50
    assert {(tag, update) for tag, update, _ in account.points} == expected
    for tag, update, value in account.points:
        assert value == pytest.approx(curves[tag][update])
    assert account.configs[0]["attention.name"] == "additive"
    # A new run in the same place has another id.
    tiny_run(tmp_path, key, "training.max_updates=1", "overwrite=true")
    assert account.runs == [(None, "tiny"), ("k3y", "tiny"), (None, "tiny")]
    assert account.ended == 3


def test_points_after_the_last_checkpoint_are_left_to_the_resumed_run():
    account = Account()
    tracker = Tracker(Service("k3y", account.send, account.end))

    tracker.add({"train/loss": 2.0}, 1)
    tracker.send()
    tracker.add({"train/loss": 1.0}, 2)
    tracker.close()

    assert account.points == [("train/loss", 1, 2.0)]
    assert account.ended == 1


@pytest.mark.parametrize("error", [RuntimeError, SystemExit])
def test_an_error_of_the_service_ends_the_sending_with_one_warning(caplog, error):
    calls = []

    def fail(*point):
        calls.append(point)
        raise error("no route to the server\nmore")

    tracker = Tracker(Service("k3y", fail, fail))
    tracker.add({"train/loss": 2.0}, 1)
    tracker.add({"train/loss": 1.0}, 2)
    tracker.send()
    tracker.close()

    assert len(calls) == 1
    [record] = caplog.records
    message = "training.monitor: no more points are sent: no route to the server"
    assert record.getMessage() == message


def test_a_service_that_refuses_the_run_is_one_line(tmp_path, monkeypatch):
    def refuse(**_):
        raise RuntimeError("no API key\nmore")

    add_module(monkeypatch, "wandb", init=refuse)

    with pytest.raises(ValueError, match=r"^training\.monitor=wandb: no API key more$"):
        open_tracker(tiny_config(tmp_path, "training.monitor=wandb"), tmp_path)


@pytest.mark.parametrize("monitor", ["wandb", "mlflow"])
def test_a_missing_package_is_reported_before_data_are_read(tmp_path, monkeypatch, monitor):
    monkeypatch.setattr(curves.importlib.util, "find_spec", lambda name: None)

    with pytest.raises(ValueError, match=rf"pip install {monitor}"):
        tiny_run(tmp_path, f"training.monitor={monitor}", "data.train=[missing.a,missing.b]")


def test_the_real_mlflow_keeps_every_point_once(tmp_path, monkeypatch):
    mlflow = pytest.importorskip("mlflow")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    mlflow.set_tracking_uri((tmp_path / "store").as_uri())

    tiny_run(tmp_path, "training.monitor=mlflow", "training.max_epochs=1")
    tiny_run(tmp_path, "training.monitor=mlflow", "training.max_epochs=2", "resume=true")

    [run] = mlflow.search_runs(output_format="list")
    found = mlflow.MlflowClient().get_metric_history(run.info.run_id, "train/loss")
    assert [point.step for point in found] == [2, 4, 6, 8, 10, 12]
