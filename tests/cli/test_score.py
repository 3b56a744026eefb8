import dataclasses
import gzip
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_study import BAD, GOOD, REFERENCE

from seq2seq.cli.command_line import load_command
from seq2seq.cli.score import ScoreConfig, ScoreFormat, main, score_systems
from seq2seq.evaluation.measures import score_texts
from seq2seq.evaluation.metrics import DEFAULT_RULE, ScoringRule, signature

METRICS = ("bleu", "chrf", "ter")
KEYS = ["output=scores", "output_format=json"]
CONFIG = load_command("score", ScoreConfig, ["hypotheses=a.en", "reference=ref.en", *KEYS])


@pytest.fixture(autouse=True)
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, lines in {"ref.en": REFERENCE, "a.en": GOOD, "b.en": BAD}.items():
        write(name, lines)


def write(name, lines):
    Path(name).write_bytes("".join(f"{line}\n" for line in lines).encode())


def scored(**changes):
    """Score as configured and return what was written."""
    score_systems(dataclasses.replace(CONFIG, **changes))
    return Path("scores").read_text(encoding="utf-8")


def test_a_single_system_gets_the_scores_of_training_and_no_significance():
    expected = score_texts(GOOD, REFERENCE)

    found = json.loads(scored())

    [system] = found["systems"]
    for metric in METRICS:
        value = expected[metric]
        assert system[metric] == {"score": value, "mean": None, "interval": None, "p_value": None}
    assert found["signatures"]["bleu"] == str(signature(DEFAULT_RULE))
    assert found["significance"] is None


def test_the_table_has_the_numbers_of_json_and_marks_significant_differences():
    wrong = ["no", "line", "is", "right", "!"]
    for name, lines in {"ref.en": REFERENCE, "a.en": GOOD, "b.en": BAD, "c.en": wrong}.items():
        write(name, 2 * lines)  # with 5 lines, no difference could be significant
    systems = {"hypotheses": ["a.en", "b.en", "c.en"]}
    found = json.loads(scored(**systems))

    lines = scored(**systems, output_format=ScoreFormat.text).splitlines()

    assert lines[0].split() == ["system", "BLEU", "chrF", "TER"]
    for system, line in zip(found["systems"], lines[1:4], strict=True):
        assert line.split()[0] == system["name"]
        for each in (system[metric] for metric in METRICS):
            cell = f"{each['score']:.2f} ({each['mean']:.2f} +- {each['interval']:.2f})"
            if each["p_value"] is not None:
                cell += f" p={each['p_value']:.4f}" + "*" * (each["p_value"] < 0.05)
            assert f"  {cell}  " in f"{line}  "
    assert "*" in lines[3]
    assert lines[5].endswith("from a.en by chance (approximate randomization); * below 0.05")
    assert lines[7] == "p is not corrected for several comparisons"
    assert [line.split() for line in lines[9:]] == [
        ["BLEU", found["signatures"]["bleu"]],
        ["chrF", found["signatures"]["chrf"]],
        ["TER", found["signatures"]["ter"]],
    ]


def test_the_table_of_a_single_system_has_only_scores_and_signatures():
    system, *signatures = scored(output_format=ScoreFormat.text).splitlines()[1:]

    expected = score_texts(GOOD, REFERENCE)
    assert system.split() == ["a.en", *(f"{expected[each]:.2f}" for each in METRICS)]
    assert [line.partition(" ")[0] for line in signatures] == ["", "BLEU", "chrF", "TER"]


def test_several_references_are_alternatives():
    write("other.en", GOOD)

    found = json.loads(scored(reference=["ref.en", "other.en"]))

    assert found["systems"][0]["bleu"]["score"] == pytest.approx(100)
    assert "nrefs:2" in found["signatures"]["bleu"].split("|")


@pytest.mark.parametrize(
    ("reference", "value", "tokenize"),
    [
        ("ref.zh", "auto", "zh"),
        ("ref.zh.gz", "auto", "zh"),
        ("ref.en", "auto", "13a"),
        ("test.ref", "auto", "13a"),
        ("ref.zh", "char", "char"),
    ],
)
def test_the_name_of_the_reference_chooses_the_tokenizer_of_bleu(reference, value, tokenize):
    lines = "".join(f"{line}\n" for line in REFERENCE).encode()
    Path(reference).write_bytes(gzip.compress(lines) if reference.endswith(".gz") else lines)

    found = json.loads(scored(reference=[reference], bleu_tokenize=value))

    assert f"tok:{tokenize}" in found["signatures"]["bleu"].split("|")
    expected = score_texts(GOOD, REFERENCE, rule=ScoringRule(tokenize))
    assert found["systems"][0]["bleu"]["score"] == expected["bleu"]


@pytest.mark.parametrize(("tokenize", "is_said"), [("char", True), ("zh", True), ("13a", False)])
def test_the_table_says_that_the_tokenizer_of_bleu_changes_ter(tokenize, is_said):
    text = scored(bleu_tokenize=tokenize, output_format=ScoreFormat.text)

    assert ("TER: on normalized text" in text) == is_said


@pytest.mark.parametrize(
    ("line", "message"),
    [
        (
            "\u6211\u559c\u6b22\u82f9\u679c\u3002" * 99,
            "ref.en has hardly any spaces, so BLEU with b",
        ),
        (" ".join(["long"] * 501), "ref.en has a line of 501 words, 'long long"),
    ],
)
def test_a_text_that_scores_do_not_suit_is_reported(caplog, line, message):
    write("ref.en", [*REFERENCE[1:], line])

    scored()

    [found] = caplog.messages
    assert found.startswith(message)


def test_lines_are_read_as_by_translate():
    odd = ["\u2028".join(REFERENCE[:2]), *REFERENCE[2:]]
    Path("odd.en.gz").write_bytes(gzip.compress(("\ufeff" + "\r\n".join(odd)).encode()))
    write("odd.en", odd)

    found = json.loads(scored(hypotheses=["odd.en.gz"], reference=["odd.en"]))

    assert found["systems"][0]["chrf"]["score"] == 100


@pytest.mark.parametrize("key", ["hypotheses", "reference"])
@pytest.mark.parametrize("number", [3, 0])
def test_a_file_of_another_length_is_named(key, number):
    write("short.en", REFERENCE[:number])

    message = rf"^{key}=short\.en has {number} lines, but reference=ref\.en has 5;"
    with pytest.raises(ValueError, match=message):
        scored(**{key: [*getattr(CONFIG, key), "short.en"]})


def test_empty_files_are_refused():
    write("empty.en", [])

    with pytest.raises(ValueError, match=r"^reference=empty\.en has 0 lines; give"):
        scored(reference=["empty.en"], hypotheses=["empty.en"])


def test_a_wrong_argument_is_one_line(refusal):
    line = refusal(main, "hypotheses=a.en", "reference=ref.en", "bleu_tokenize=moses")

    assert line.startswith("bleu_tokenize='moses' must be one of: auto")


def test_the_script_scores_without_torch_and_leaves_no_traces():
    before = sorted(path.name for path in Path().iterdir())
    arguments = ("reference=ref.en", "hypotheses=[a.en,b.en]")
    command = [sys.executable, "-X", "importtime", "-m", "seq2seq.cli.score", *arguments]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}

    done = subprocess.run(command, capture_output=True, env=environment, check=False, text=True)

    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("system    BLEU ")
    assert "ar:10000|" in done.stdout
    imported = {line.rpartition("|")[2].strip() for line in done.stderr.splitlines()}
    assert "sacrebleu" in imported
    assert "torch" not in imported
    assert all(line.startswith("import time:") for line in done.stderr.splitlines())
    assert sorted(path.name for path in Path().iterdir()) == before


@pytest.mark.parametrize("key", ["hypotheses", "reference"])
def test_scores_do_not_overwrite_the_files_they_come_from(key, tmp_path):
    path = tmp_path / "x.en"
    path.touch()
    link = tmp_path / "link.en"
    link.symlink_to(path)

    with pytest.raises(
        ValueError, match=rf"output={path} would overwrite the file of {key}={link}"
    ):
        dataclasses.replace(CONFIG, output=str(path), **{key: [str(link)]})
