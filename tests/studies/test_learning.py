import json
import math

import numpy as np
import pytest
from tiny_study import change_results, write_study

from seq2seq.studies import learning
from seq2seq.studies.learning import learning_section
from seq2seq.studies.runs import group_runs, read_runs
from seq2seq.training.run_directory import RunDirectory

PAIRS = [{"source": ["\u2581Hund", "</s>"], "target": ["\u2581dog", "</s>"]}]
AER = (0.9, 0.6, 0.4, 0.1)
DIAGONAL = 0.5
BLEU = (1.0, 12.0, 28.0, 30.0)


def write_history(path, *, errors=AER, pairs=PAIRS, scale=1.0):
    """Write what a run leaves of its validations, each with a map of its own."""
    scores = [
        {"update": 10 * n, "bleu": scale * bleu, "loss": 1.0, "aer": error}
        for n, (bleu, error) in enumerate(zip(BLEU, errors, strict=True), start=1)
    ]
    valid = {"bleu": 30.0, "aer_of_diagonal": DIAGONAL}
    change_results(path, validations=scores, valid=valid)
    kept = [each | {"maps": [[[n, 100 - n], [0, 100]]]} for n, each in enumerate(scores)]
    (path / "validations.json").write_text(json.dumps({"pairs": pairs, "validations": kept}))


@pytest.fixture
def study(tmp_path):
    sweep = write_study(tmp_path / "sweep")
    for path in sweep.glob("*dot*"):
        write_history(path)
    return sweep


def section_of(study):
    notes = []
    section, maps = learning_section(group_runs(read_runs([study])), notes)
    return section, maps, notes


def moments_of(study):
    """Return the cells of each group by the heads of their columns."""
    section, _, notes = section_of(study)
    [table] = section.tables
    heads = [column.label for column in table.columns]
    assert notes == []
    return {row[0].text: dict(zip(heads, row, strict=True)) for row in table.rows}


def test_the_moments_are_the_first_validations_past_fixed_thresholds(study):
    rows = moments_of(study)

    assert rows["dot"]["Aligned at update"] == ("30", 30)  # 0.4 is below the diagonal
    assert rows["dot"]["Half BLEU at update"] == ("30", 30)  # 28 is the first of at least 30 / 2
    assert rows["none"]["Aligned at update"] == ("-", None)
    assert "Validation BLEU" in rows["dot"]


def test_a_run_may_align_before_the_first_validation_or_never(study):
    first, second = sorted(study.glob("*dot*"))
    write_history(first, errors=(0.49, 0.2, 0.2, 0.1))
    write_history(second, errors=(0.9, 0.8, 0.7, 0.51))

    cell = moments_of(study)["dot"]["Aligned at update"]

    assert cell == ("before the first validation to never", None)
    runs = {run.directory.path: run.measures["aligned_at"] for run in read_runs([study])[:2]}
    assert runs == {first: 0, second: math.inf}


def test_half_bleu_is_half_of_the_best_run_of_the_study(study):
    for path in study.glob("*none*"):
        write_history(path, scale=0.4)

    rows = moments_of(study)

    assert rows["none"]["Half BLEU at update"].text == "never"  # 12 at most, of 30
    assert rows["dot"]["Half BLEU at update"].text == "30"


def updates_of(maps):
    return [[each["update"] for each in run["validations"]] for run in maps["runs"]]


def test_the_maps_are_those_of_all_runs_that_kept_them(study):
    section, maps, _ = section_of(study)

    assert section.has_maps
    [pair] = maps["pairs"]
    assert pair.items() >= PAIRS[0].items()
    assert [run["name"] for run in maps["runs"]] == ["dot, seed 1", "dot, seed 2"]
    assert updates_of(maps)[0] == [10, 20, 30, 40]
    assert maps["runs"][0]["validations"][1]["scores"] == "BLEU 12.00, AER 0.600"
    assert maps["runs"][1]["validations"][3]["maps"] == [[[3, 97], [0, 100]]]


def test_the_pairs_of_the_maps_have_the_numbers_by_which_a_reader_chooses_them(study):
    pairs = [*PAIRS, {"source": ["a", "b", "</s>"], "target": ["c", "</s>"]}]
    for number, path in enumerate(sorted(study.glob("*dot*"))):
        write_history(path, pairs=pairs)
        file = path / "validations.json"
        content = json.loads(file.read_text())
        last = [[[100, 0], [0, 100]], [[100, 0, 0], [50 * number, 50, 50 - 50 * number]]]
        content["validations"][-1]["maps"] = last
        file.write_text(json.dumps(content))

    _, unread, _ = section_of(study)
    for path in study.glob("*dot*"):
        (path / "valid.hyp").write_text("a dog\nc\n")
        (path / "valid.ref").write_text("dog\nd\n")
        links = np.array([[[2, 2, 1, 2]], [[2, 2, 2, 2]]], dtype=float)
        RunDirectory(path).write_statistics("valid", {"aer": links})
    _, maps, _ = section_of(study)

    # The two runs of the second pair share half of the attention of one of two tokens.
    attention = [{"Source tokens": 2.0, "Different attention": 0.0}]
    attention += [{"Source tokens": 3.0, "Different attention": 0.125}]
    assert [pair["numbers"] for pair in unread["pairs"]] == attention
    translations = [
        {"Different translations": 1.0, "Words unlike the reference": 0.333, "AER": 0.25},
        {"Different translations": 1.0, "Words unlike the reference": 1.0, "AER": 0.0},
    ]
    for pair, first, second in zip(maps["pairs"], attention, translations, strict=True):
        assert pair["numbers"] == first | second


def test_of_many_maps_every_second_one_and_the_last_are_shown(study, monkeypatch):
    monkeypatch.setattr(learning, "_MAX_WEIGHTS", 2 * 4 * 4 // 2)

    _, maps, notes = section_of(study)

    assert updates_of(maps) == [[20, 40], [20, 40]]
    assert "one of 2 validations" in notes[0]


@pytest.mark.parametrize("damage", ["pairs", "file"])
def test_a_run_whose_maps_do_not_compare_is_left_out_with_a_note(study, damage):
    path = next(study.glob("*dot*seed-2"))
    if damage == "pairs":
        write_history(path, pairs=[{"source": ["a"], "target": ["b"]}])
    else:
        (path / "validations.json").write_text("{")

    _, maps, [note] = section_of(study)

    assert [run["name"] for run in maps["runs"]] == ["dot, seed 1"]
    assert path.name in note


def test_a_study_without_maps_and_alignment_has_no_section(tmp_path):
    section, maps, notes = section_of(write_study(tmp_path / "sweep"))

    assert maps is None
    assert not (section.paragraphs or section.tables or notes)
