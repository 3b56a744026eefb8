import json
import shutil

import pytest
import sacrebleu
from tiny_study import write_run

from seq2seq.cli.studies.breakdowns import breakdowns, read_sources, training_counts
from seq2seq.cli.studies.runs import group_runs, read_runs


def test_the_bleu_of_a_range_is_the_mean_over_the_runs(groups):
    section, notes = breakdowns(groups)

    assert notes == []
    chart = section.charts[0]
    [lengths] = chart.series[0].x.values()
    assert lengths == ["1"]  # the corpus has sentences of one word
    scores = [
        sacrebleu.corpus_bleu(
            (run.path / "test.hyp").read_text().splitlines(),
            [(run.path / "test.ref").read_text().splitlines()],
        ).score
        for run in groups[0].runs
    ]
    assert chart.series[0].y == pytest.approx([sum(scores) / 2])


def test_words_are_counted_in_the_training_data(groups, trained):
    run = groups[0].runs[0]

    counts = training_counts(run, str.split)

    lines = (trained.parent / "b.train").read_text().split()
    assert counts.total() == len(lines)
    assert all(counts[word] == lines.count(word) for word in lines)


def test_other_training_data_are_refused(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "copy")
    for path in (tmp_path / "copy").glob("*/results.json"):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"training_data": "other"}))

    section, notes = breakdowns(group_runs(read_runs([tmp_path / "copy"])))

    [note] = notes
    assert "the training data are not those that" in note
    assert len(section.charts) == 1


def test_missing_training_data_leave_out_the_frequencies(trained, tmp_path):
    shutil.copytree(trained, tmp_path / "copy")
    for path in (tmp_path / "copy").glob("*/config.yaml"):
        path.write_text(path.read_text().replace(str(trained.parent), str(tmp_path / "absent")))

    section, notes = breakdowns(group_runs(read_runs([tmp_path / "copy"])))

    assert len(section.charts) == len(notes) == 1
    assert "absent" in notes[0]


def test_sources_that_were_cut_off_are_not_used(tmp_path):
    [run] = read_runs([write_run(tmp_path / "run")])
    assert read_sources(run) is None
    (run.path / "test.src").write_text("Ein Hund\n" * 30)
    assert read_sources(run) == ["Ein Hund"] * 30
    (run.path / "test.src").write_text("Ein Hund\n" * 29)
    assert read_sources(run) is None
