import shutil

import pytest

from seq2seq.studies.agreement import mean_divergence
from seq2seq.studies.findings import find
from seq2seq.studies.runs import group_runs, read_runs
from seq2seq.studies.tables import compare_with_baseline


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
    assert rows["true"]["agreement_p"] == 1
    assert found.losses == []
