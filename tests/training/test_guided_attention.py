import logging
from pathlib import Path

import pytest
from tiny_training import read_scalars, tiny_config

from seq2seq.config.schema import TrainConfig
from seq2seq.training.preparation import PreparedData, prepare_data
from seq2seq.training.run import run_training

SOURCE = ["a b", "c", "", "ab ba c", "a", "b a"]
TARGET = ["x", "x y", "y", "y yx xx", "", "y x"]
ALIGNMENTS = ["1-0", "0-0 0p1", "0-0", "0-2 2-1", "", "1-1"]
"""The third and the fifth pair are left out, because one side is empty."""
GUIDED = "training.guided_attention.weight=0.5"


def write_text(folder: Path, alignments: list[str]) -> Path:
    folder.mkdir(exist_ok=True)
    for name in ("train", "valid", "test"):
        (folder / f"a.{name}").write_text("".join(f"{line}\n" for line in SOURCE))
        (folder / f"b.{name}").write_text("".join(f"{line}\n" for line in TARGET))
    path = folder / "links.txt"
    path.write_text("".join(f"{line}\n" for line in alignments))
    return path


def guided_config(folder: Path, alignments: list[str], *overrides: str) -> TrainConfig:
    path = write_text(folder, alignments)
    train = f"data.train=['{folder}/a.train','{folder}/b.train','{path}']"
    return tiny_config(folder, GUIDED, train, *overrides)


def links_of(data: PreparedData) -> list[set[tuple[int, int]]]:
    """Return the (target token, source token) of each row."""
    links = data.train_links
    assert links is not None
    return [set(map(tuple, links[row].reshape(-1, 2).tolist())) for row in range(len(links))]


def test_pairs_left_out_do_not_shift_the_links_of_others(tmp_path):
    data = prepare_data(guided_config(tmp_path, ALIGNMENTS))

    # Tokens are characters; a space belongs to the word after it.
    assert links_of(data) == [
        {(0, 1), (0, 2)},
        {(0, 0), (1, 0), (2, 0)},
        {(4, 0), (5, 0), (6, 0), (1, 5), (2, 5), (3, 5), (1, 6), (2, 6), (3, 6)}
        | {(4, 1), (5, 1), (6, 1)},
        {(1, 1), (1, 2), (2, 1), (2, 2)},
    ]


def test_links_count_no_tags_and_run_through_all_corpora(tmp_path):
    plain = links_of(prepare_data(guided_config(tmp_path, ALIGNMENTS)))
    files = f"files: ['{tmp_path}/a.train','{tmp_path}/b.train','{tmp_path}/links.txt']"

    corpora = f"data.train={{first: {{{files}}}, second: {{{files}, tag: '<2b>'}}}}"
    data = prepare_data(tiny_config(tmp_path, GUIDED, corpora))

    # The tag is a token. The space after it is none.
    assert links_of(data) == [*plain, *({(t, s + 1) for t, s in row} for row in plain)]


def test_random_segmentations_are_refused(tmp_path):
    tokenizer = ("tokenizer=bpe", "tokenizer.vocabulary_size=30", "tokenizer.sampling_alpha=0.1")
    config = guided_config(tmp_path, ALIGNMENTS, *tokenizer)

    with pytest.raises(ValueError, match=r"guided_attention\.weight=0\.5 needs the same tokens in"):
        prepare_data(config)


def test_long_pairs_do_not_shift_the_links_of_others(tmp_path):
    every = links_of(prepare_data(guided_config(tmp_path, ALIGNMENTS)))

    data = prepare_data(guided_config(tmp_path, ALIGNMENTS, "data.max_length=3"))

    assert data.train.indices.tolist() == [0, 1, 3]
    assert links_of(data) == [every[0], every[1], every[3]]


def test_a_line_without_links_leaves_its_pair_unguided(tmp_path):
    links = links_of(prepare_data(guided_config(tmp_path, ["", "0-1", "", "", "", ""])))

    assert links == [set(), {(1, 0), (2, 0)}, set(), set()]


def test_text_without_any_links_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"weight: the training text has no links; give word"):
        prepare_data(guided_config(tmp_path, [""] * 6))


def test_text_without_a_file_of_links_is_refused(tmp_path):
    with pytest.raises(ValueError, match=r"weight: pair 1 has no links; give .*my/a\.align"):
        prepare_data(tiny_config(tmp_path, GUIDED))


def test_weight_zero_uses_no_links(tmp_path):
    config = guided_config(tmp_path, ALIGNMENTS, "training.guided_attention.weight=0")

    assert prepare_data(config).train_links is None


def test_the_fingerprint_depends_on_the_links(tmp_path):
    other = ["0-0", *ALIGNMENTS[1:]]

    first, second, changed = (
        prepare_data(guided_config(tmp_path, links)).fingerprint
        for links in (ALIGNMENTS, ALIGNMENTS, other)
    )

    assert first == second != changed


def test_a_guided_run_draws_its_loss(tmp_path):
    config = guided_config(tmp_path, ALIGNMENTS, "training.max_epochs=1", "training.log_every=1")

    run_training(config, tmp_path / "run")

    curve = read_scalars(tmp_path / "run")["train/guided_attention_loss"]
    assert all(0 < nats < 10 for nats in curve.values())
    assert curve


def test_links_are_read_once_and_logged_each_time(tmp_path, caplog, monkeypatch):
    caplog.set_level(logging.INFO)
    config = guided_config(tmp_path, ALIGNMENTS)
    first = prepare_data(config)
    logged = [message for message in caplog.messages if "guide" in message]
    caplog.clear()
    monkeypatch.setattr("seq2seq.training.guided_attention.link_tokens", None)

    again = prepare_data(config)

    assert links_of(again) == links_of(first)
    assert again.fingerprint == first.fingerprint
    assert [message for message in caplog.messages if "guide" in message] == logged
    assert len(logged) == 1
