import dataclasses
import html
import math
import re
import struct
import time
import zlib
from pathlib import Path

import pytest
import torch
from markdown import markdown
from matplotlib.figure import Figure
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from tiny_training import event_files, read_scalars, read_tags

from seq2seq.data.tokenizers.words import CharacterTokenizer
from seq2seq.files.atomic import create_file
from seq2seq.inference.translations import EncodedLine, make_translation
from seq2seq.search.config import Hypothesis
from seq2seq.training.curves import EventFile, TensorBoard, new_event_file
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
        *(make_translation(source, [each], tokenizers=tokenizers) for each in (found, reference))
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
    with TensorBoard(tmp_path, first_update=1) as board:
        board.samples(evaluation(num_heads=num_heads), update=3)

    tags = read_tags(tmp_path)
    assert {f"valid_text/{index}/text_summary" for index in range(2)} <= tags
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


def test_a_sample_without_a_token_has_no_map(tmp_path):
    found = evaluation()
    found.samples[0] = sample([], torch.zeros(2, 0, 2))

    with TensorBoard(tmp_path, first_update=1) as board:
        board.samples(found, update=3)

    drawn = {tag for tag in read_tags(tmp_path) if tag.startswith("valid_attention/")}
    assert drawn == {f"valid_attention/1/head_{head}" for head in (1, 2)}


def test_an_update_has_its_place_in_minutes_and_target_tokens(tmp_path):
    with TensorBoard(tmp_path, first_update=1) as board:
        board.position("valid", Progress(update=4, seconds=90.0, target_tokens=123))

    assert read_scalars(tmp_path) == {"valid/minutes": {4: 1.5}, "valid/target_tokens": {4: 123.0}}


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


def test_an_image_has_the_size_of_its_figure(tmp_path):
    file = EventFile(create_file(tmp_path / "events.out.1"))
    file.add_image("map", Figure(figsize=(3, 2), dpi=50), 4)
    file.close()

    [path] = event_files(tmp_path)
    *_, event = EventFileLoader(str(path)).Load()
    width, height, png = event.summary.value[0].tensor.string_val
    assert (width, height) == (b"150", b"100")
    assert png[12:24] == b"IHDR" + struct.pack(">II", 150, 100)
    assert zlib.crc32(png[12:29]) == struct.unpack_from(">I", png, offset=29)[0]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a full device")
def test_a_full_disk_is_an_error_of_the_call_that_meets_it():
    file = EventFile(create_file(Path("/dev/full")))

    with pytest.raises(OSError, match="/dev/full") as raised:
        file.close()

    assert raised.value.filename == "/dev/full"
