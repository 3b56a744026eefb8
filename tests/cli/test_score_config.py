import dataclasses
from pathlib import Path

import pytest

from seq2seq.cli.score_config import ScoreConfig, ScoreFormat, Significance

CONFIG = ScoreConfig(
    hypotheses=["a.en"],
    reference=["ref.en"],
    output=None,
    output_format=ScoreFormat.text,
    significance=Significance.bootstrap,
    significance_samples=None,
)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"hypotheses": []}, r"hypotheses=\[\] must name a file"),
        ({"hypotheses": ["a.en", ""]}, r"hypotheses=\['a.en', ''\] must name a file"),
        ({"reference": []}, r"reference=\[\] must name a file"),
        ({"significance_samples": 0}, "^significance_samples=0 must be at least 1"),
    ],
)
def test_values_out_of_range_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(CONFIG, **changes)


@pytest.mark.parametrize("key", ["hypotheses", "reference"])
def test_scores_are_not_written_over_what_they_come_from(key, tmp_path):
    path = tmp_path / "x.en"
    path.touch()
    link = tmp_path / "link.en"
    link.symlink_to(path)

    with pytest.raises(ValueError, match=rf"output={path} would overwrite what {key}={link}"):
        dataclasses.replace(CONFIG, output=str(path), **{key: [str(link)]})


def test_scores_may_replace_earlier_ones(tmp_path):
    path = Path(tmp_path / "scores.txt")
    path.touch()

    assert dataclasses.replace(CONFIG, output=str(path)).output == str(path)
