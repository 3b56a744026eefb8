import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from seq2seq.evaluation.metrics import score
from seq2seq.evaluation.significance import Significance, compare_systems

METRICS = ("bleu", "chrf", "ter")
REFERENCE = [
    "A dog runs through the deep snow.",
    "Two men are sitting on a bench.",
    "The child isn't sleeping, is it?",
    "A woman in red sings.",
    "Nobody is here today, I think.",
]
GOOD = [
    "A dog runs through snow.",
    "Two men sit on a bench.",
    "The child is not sleeping, is it?",
    "A woman in red sings.",
    "Nobody is here, I think.",
]
BAD = [
    "A dog runs through the deep snow.",
    "Two men are sitting.",
    "A child is not asleep, is it?",
    "",
    "Nobody is here today, I think.",
]


def compare(*texts, references=(REFERENCE,), test=Significance.bootstrap, num_samples=40):
    systems = [(f"{number}.en", text) for number, text in enumerate(texts)]
    return compare_systems(systems, references, significance=test, num_samples=num_samples)


@pytest.mark.parametrize(
    ("test", "option"),
    [
        (Significance.bootstrap, "--paired-bs"),
        (Significance.approximate_randomization, "--paired-ar"),
    ],
)
def test_all_numbers_and_signatures_are_those_of_the_sacrebleu_command(
    tmp_path, monkeypatch, test, option
):
    monkeypatch.chdir(tmp_path)
    for name, lines in {"ref.en": REFERENCE, "0.en": GOOD, "1.en": BAD}.items():
        Path(name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    command = [sys.executable, "-m", "sacrebleu.sacrebleu", "ref.en", "-i", "0.en", "1.en"]
    command += ["-m", *METRICS, option, f"{option}-n", "40", "--format", "latex", "-w", "6"]
    environment = {**os.environ, "NO_COLOR": "1", "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(command, capture_output=True, check=True, timeout=100, env=environment)
    table = done.stdout.decode().splitlines()

    found = compare(GOOD, BAD, test=test)

    for number, name in enumerate(found.names):
        [row] = [line for line in table if f"{name} &" in line]
        assert numbers(found, number) == re.findall(r"\d+\.\d+", row)
    signatures = [line.split()[-1] for line in table if "|seed:12345|" in line]
    assert sorted(found.signatures.values()) == sorted(signatures)


def numbers(found, number):
    """Return the numbers of a system as sacreBLEU writes them."""
    formats = (".6f", ".6f", ".6f", ".4f")  # in the order of MetricScore
    values = [
        (value, spec)
        for metric in METRICS
        for value, spec in zip(found.scores[metric][number], formats, strict=True)
    ]
    return [format(value, spec) for value, spec in values if value is not None]


def test_a_single_system_gets_the_scores_of_metrics_and_no_test():
    expected = score(GOOD, REFERENCE)

    found = compare(GOOD)

    for metric in METRICS:
        assert found.scores[metric] == [(getattr(expected, metric), None, None, None)]
    assert found.signatures["bleu"] == expected.signature


@pytest.mark.parametrize("test", Significance)
def test_equal_systems_do_not_differ(test):
    found = compare(GOOD, GOOD, test=test)

    for first, second in found.scores.values():
        assert first.p_value is None
        assert second == first._replace(p_value=1.0)


@pytest.mark.parametrize("texts", [[REFERENCE], [REFERENCE, GOOD]])
def test_no_rounding_error_takes_a_score_above_100(texts):
    found = compare(*texts)

    assert [found.scores[metric][0].score for metric in METRICS] == [100, 100, 0]
    assert max(found.scores[metric][0].mean or 0 for metric in METRICS) <= 100


def test_the_seed_and_the_number_of_samples_are_in_every_signature():
    found = compare(GOOD, BAD)

    assert sorted(found.signatures) == sorted(METRICS)
    for signature in found.signatures.values():
        assert {"bs:40", "seed:12345", "nrefs:1"} <= set(signature.split("|"))


def test_without_a_number_of_samples_that_of_sacrebleu_is_taken():
    found = compare(GOOD, BAD, num_samples=None)

    assert "bs:1000" in found.signatures["bleu"].split("|")


def test_several_references_are_alternatives():
    found = compare(GOOD, references=(REFERENCE, GOOD))

    assert found.scores["bleu"][0].score == 100
    assert "nrefs:2" in found.signatures["bleu"].split("|")


def test_all_numbers_can_be_written_as_json():
    found = compare(GOOD, BAD)

    assert json.loads(json.dumps(found.scores)) == {
        metric: [list(each) for each in scores] for metric, scores in found.scores.items()
    }
