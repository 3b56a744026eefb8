import shutil
from itertools import combinations

import pytest

from seq2seq.studies.agreement import mean_divergence
from seq2seq.studies.comparison import compare_with_baseline
from seq2seq.studies.findings import _compare_attention, find
from seq2seq.studies.runs import Group, StudyRun, group_runs, read_runs


def test_a_group_is_compared_in_its_attention_if_it_and_the_baseline_have_some(trained, tmp_path):
    path = shutil.copytree(trained, tmp_path / "study")
    for seed in (1, 2):
        copy = shutil.copytree(path / f"multihead-{seed}", path / f"copy-{seed}")
        (copy / "overrides.txt").write_text(f"attention=multihead\nseed={seed}\n+copy=true\n")
    groups = group_runs(read_runs([path]))
    names = [group.swept["copy"] or group.swept["attention"] for group in groups]
    multihead = groups[names.index("multihead")]

    found = find(groups, compare_with_baseline(groups, multihead.label))

    rows = dict(zip(names, found.measures, strict=True))
    assert "agreement_p" not in rows["none"] | rows["multihead"]
    within = mean_divergence(found.agreement, multihead, multihead)
    assert rows["true"]["agreement_within"] == pytest.approx(within)
    # Of the four pairs between the groups, two are a run and its copy.
    assert rows["true"]["agreement_between"] == pytest.approx(within / 2)
    assert found.losses == []
    # Of two seeds each, no division is rare enough.
    assert "agreement_p" not in rows["true"]
    assert rows["true"]["agreement_seeds_needed"] == 4
    [note] = [note for note in found.notes if "attention" in note]
    assert "for 1 comparison, p can be below 0.05 with 4 or more seeds" in note


def test_p_values_of_attention_are_corrected_for_the_number_of_groups():
    groups = [
        Group(
            swept={"attention": label},
            runs=[StudyRun(name=f"{label}{n}", directory=None) for n in range(5)],
            num_failed=0,
        )
        for label in "abc"
    ]
    agreement = {
        frozenset((one, other)): 0.1 if one.name[0] == other.name[0] else 0.9
        for one, other in combinations([run for group in groups for run in group.runs], 2)
    }
    rows = [{} for _ in groups]

    _compare_attention(groups, [None, groups[0], groups[0]], agreement, rows, notes := [])

    assert rows[0] == {}
    assert [row["agreement_p"] for row in rows[1:]] == pytest.approx([2 * 2 / 252] * 2)
    assert notes == []
