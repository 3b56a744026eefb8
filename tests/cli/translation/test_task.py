import io
import json
import os
import select
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tiny_translator import BEAM, SENTENCES, make_translate_config

from seq2seq.cli.translation.config import OutputFormat
from seq2seq.cli.translation.task import translate
from seq2seq.inference.translator import Translator
from seq2seq.kernels import Kernels, kernels_are_fast
from seq2seq.runtime.numerics import Device, Precision

ROOT = Path(__file__).parents[3]
TEXT = "".join(f"{line}\n" for line in SENTENCES).encode()


@pytest.fixture(scope="module")
def expected(checkpoint):
    translator = Translator.load(checkpoint, device=Device.cpu, precision=Precision.fp32)
    return list(translator.translate(SENTENCES, BEAM, batch_size=1))


@pytest.fixture
def input_file(tmp_path):
    path = tmp_path / "input.txt"
    path.write_bytes(TEXT)
    return str(path)


def test_a_file_becomes_a_file_of_as_many_lines(checkpoint, input_file, tmp_path, expected):
    output = tmp_path / "output.txt"

    translate(make_translate_config(checkpoint, input=input_file, output=str(output)))

    lines = output.read_bytes().decode().split("\n")
    assert lines == [*(translation.hypotheses[0].text for translation in expected), ""]
    assert lines[2] == lines[4] == ""


def test_standard_output_has_only_translations(checkpoint, input_file, capfdbinary, expected):
    translate(make_translate_config(checkpoint, input=input_file))

    lines = capfdbinary.readouterr().out.decode().split("\n")
    assert lines == [*(translation.hypotheses[0].text for translation in expected), ""]


def test_text_is_translated_instead_of_the_input(checkpoint, capfdbinary, expected):
    translate(make_translate_config(checkpoint, text=SENTENCES[0]))

    assert capfdbinary.readouterr().out.decode() == f"{expected[0].hypotheses[0].text}\n"


def test_plain_kernels_translate_alike(checkpoint, input_file, tmp_path, expected):
    output = tmp_path / "output.txt"

    translate(
        make_translate_config(
            checkpoint, input=input_file, output=str(output), kernels=Kernels.plain
        )
    )

    assert not kernels_are_fast()
    assert output.read_text().splitlines() == [each.best.text for each in expected]


@pytest.mark.parametrize(("text", "num_lines"), [("", 1), ("ja\n\nnein", 3), ("j\udcff", 1)])
def test_any_text_gets_a_line_for_each_of_its_lines(checkpoint, capfdbinary, text, num_lines):
    translate(make_translate_config(checkpoint, text=text))

    assert capfdbinary.readouterr().out.count(b"\n") == num_lines


def test_nbest_numbers_the_lines_and_ranks_the_hypotheses(
    checkpoint, input_file, capfdbinary, expected
):
    translate(make_translate_config(checkpoint, input=input_file, output_format=OutputFormat.nbest))

    rows = [line.split(" ||| ") for line in capfdbinary.readouterr().out.decode().splitlines()]
    wanted = [
        (str(index), found) for index, each in enumerate(expected) for found in each.hypotheses
    ]
    assert [(index, text) for index, text, _ in rows] == [
        (index, found.text) for index, found in wanted
    ]
    for (_, _, score), (_, found) in zip(rows, wanted, strict=True):
        assert float(score) == pytest.approx(found.score, abs=1e-5)


def test_json_has_one_object_a_line(checkpoint, input_file, capfdbinary):
    translate(make_translate_config(checkpoint, input=input_file, output_format=OutputFormat.json))

    lines = capfdbinary.readouterr().out.decode().splitlines()
    assert [json.loads(line)["source"] for line in lines] == SENTENCES


def test_a_crash_halfway_leaves_no_output(checkpoint, input_file, tmp_path, monkeypatch):
    def crash(*arguments, **options):
        raise RuntimeError

    monkeypatch.setattr(Translator, "_map_batches", crash)

    with pytest.raises(RuntimeError):
        translate(
            make_translate_config(checkpoint, input=input_file, output=str(tmp_path / "out.txt"))
        )

    assert [path.name for path in tmp_path.iterdir()] == ["input.txt"]


def test_a_missing_input_is_an_error_with_its_path(checkpoint, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere\.txt"):
        translate(make_translate_config(checkpoint, input=str(tmp_path / "nowhere.txt")))


def test_closed_standard_input_is_an_error_and_no_prompt(checkpoint, monkeypatch):
    monkeypatch.setattr(sys, "stdin", None)

    with pytest.raises(OSError, match="standard input is closed"):
        translate(make_translate_config(checkpoint))


def test_a_line_from_a_pipe_is_answered_before_the_next_one_arrives(
    checkpoint, monkeypatch, expected
):
    (source, lines), (answers, target) = os.pipe(), os.pipe()
    config = make_translate_config(checkpoint, output=f"/dev/fd/{target}")
    with os.fdopen(source) as stdin, ThreadPoolExecutor(1) as pool:
        monkeypatch.setattr(sys, "stdin", stdin)
        done = pool.submit(translate, config)
        try:
            for line, translation in zip(SENTENCES, expected, strict=True):
                os.write(lines, f"{line}\n".encode())
                assert select.select([answers], [], [], 60)[0] == [answers]
                assert os.read(answers, 1000).decode() == f"{translation.text}\n"
        finally:
            os.close(lines)
        done.result()
    os.close(answers)
    os.close(target)


def test_each_line_at_the_prompt_is_answered_at_once(
    checkpoint, monkeypatch, capfdbinary, expected
):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    answers = []

    def type_line(prompt):
        answers.append(capfdbinary.readouterr().out.decode())
        if len(answers) > 2:
            raise EOFError
        return SENTENCES[len(answers) - 1]

    monkeypatch.setattr(sys, "stdin", Terminal())
    monkeypatch.setattr("builtins.input", type_line)

    translate(make_translate_config(checkpoint))

    assert answers == ["", *(f"{expected[i].hypotheses[0].text}\n" for i in range(2))]


REFERENCES = ["abc", "a.", "", "hgfe dcb", "", "ab cd", "c", "e f"]


@pytest.fixture
def reference_file(tmp_path):
    path = tmp_path / "reference.txt"
    path.write_text("".join(f"{line}\n" for line in REFERENCES))
    return str(path)


@pytest.fixture(scope="module")
def log_probabilities(checkpoint):
    translator = Translator.load(checkpoint, device=Device.cpu, precision=Precision.fp32)
    pairs = zip(SENTENCES, REFERENCES, strict=True)
    return [each.hypotheses[0].log_probability for each in translator.score(pairs, batch_size=1)]


def test_a_reference_is_scored_line_by_line(
    checkpoint, input_file, reference_file, capfdbinary, log_probabilities
):
    translate(make_translate_config(checkpoint, input=input_file, reference=reference_file))

    lines = capfdbinary.readouterr().out.decode().splitlines()
    assert list(map(float, lines)) == pytest.approx(log_probabilities, abs=2e-4)
    assert all(len(line.partition(".")[2]) == 4 for line in lines)


def test_a_reference_is_the_only_hypothesis_in_nbest_and_json(
    checkpoint, input_file, reference_file, capfdbinary, log_probabilities
):
    files = {"input": input_file, "reference": reference_file}
    translate(make_translate_config(checkpoint, **files, output_format=OutputFormat.nbest))
    nbest = [line.split(" ||| ") for line in capfdbinary.readouterr().out.decode().splitlines()]
    translate(make_translate_config(checkpoint, **files, output_format=OutputFormat.json))
    objects = [json.loads(line) for line in capfdbinary.readouterr().out.decode().splitlines()]

    assert [line[:2] for line in nbest] == [[str(i), text] for i, text in enumerate(REFERENCES)]
    assert [float(line[2]) for line in nbest] == pytest.approx(log_probabilities, abs=1e-4)
    assert [each["source"] for each in objects] == SENTENCES
    assert [each["hypotheses"][0]["text"] for each in objects] == REFERENCES
    assert all(len(each["hypotheses"]) == 1 for each in objects)


def test_a_reference_of_another_length_is_an_error_and_leaves_no_file(
    checkpoint, input_file, reference_file, tmp_path
):
    with open(reference_file, "a") as file:  # noqa: PTH123
        file.write("b\n")

    with pytest.raises(ValueError, match=r"input=\S+ ends before line 9, which reference=\S+ has;"):
        translate(
            make_translate_config(
                checkpoint,
                input=input_file,
                reference=reference_file,
                output=str(tmp_path / "scores.txt"),
                alignments=str(tmp_path / "links.txt"),
                attention_html=str(tmp_path / "page.html"),
            )
        )

    assert sorted(path.name for path in tmp_path.iterdir()) == ["input.txt", "reference.txt"]


def test_a_reference_is_refused_at_a_prompt(monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setattr(sys, "stdin", Terminal())

    with pytest.raises(ValueError, match=r"reference=a\.en cannot be used at a prompt; give"):
        translate(make_translate_config("run", reference="a.en"))
