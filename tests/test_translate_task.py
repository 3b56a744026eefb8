import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf
from tiny_translator import BEAM, GREEDY, SENTENCES, write_checkpoint

from seq2seq.alignment import read_links
from seq2seq.training.config import Device, Precision
from seq2seq.translate_config import OutputFormat, TranslateConfig
from seq2seq.translate_task import quote_plain_values, translate
from seq2seq.translator import Translator

ROOT = Path(__file__).parent.parent
TEXT = "".join(f"{line}\n" for line in SENTENCES).encode()


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory):
    return write_checkpoint(tmp_path_factory.mktemp("checkpoints") / "run")


@pytest.fixture(scope="module")
def expected(checkpoint):
    translator = Translator.load(checkpoint, device=Device.cpu, precision=Precision.fp32)
    return list(translator.translate(SENTENCES, BEAM, batch_size=1))


def make_config(checkpoint, **changes):
    values = {
        "checkpoint": str(checkpoint),
        "text": None,
        "input": None,
        "output": None,
        "output_format": OutputFormat.text,
        "alignments": None,
        "attention_plot": None,
        "batch_size": 3,
        "device": Device.cpu,
        "precision": Precision.fp32,
        "threads": None,
        "decoding": BEAM,
    }
    return TranslateConfig(**{**values, **changes})


@pytest.fixture
def input_file(tmp_path):
    path = tmp_path / "input.txt"
    path.write_bytes(TEXT)
    return str(path)


def test_a_file_becomes_a_file_of_as_many_lines(checkpoint, input_file, tmp_path, expected):
    output = tmp_path / "output.txt"

    translate(make_config(checkpoint, input=input_file, output=str(output)))

    lines = output.read_bytes().decode().split("\n")
    assert lines == [*(translation.hypotheses[0].text for translation in expected), ""]
    assert lines[2] == lines[4] == ""


def test_standard_output_has_translations_alone(checkpoint, input_file, capfdbinary, expected):
    translate(make_config(checkpoint, input=input_file))

    lines = capfdbinary.readouterr().out.decode().split("\n")
    assert lines == [*(translation.hypotheses[0].text for translation in expected), ""]


def test_text_is_translated_instead_of_the_input(checkpoint, capfdbinary, expected):
    translate(make_config(checkpoint, text=SENTENCES[0]))

    assert capfdbinary.readouterr().out.decode() == f"{expected[0].hypotheses[0].text}\n"


@pytest.mark.parametrize(("text", "num_lines"), [("", 1), ("ja\n\nnein", 3), ("j\udcff", 1)])
def test_any_text_gets_a_line_for_each_of_its_lines(checkpoint, capfdbinary, text, num_lines):
    translate(make_config(checkpoint, text=text))

    assert capfdbinary.readouterr().out.count(b"\n") == num_lines


def test_nbest_numbers_the_lines_and_ranks_the_hypotheses(
    checkpoint, input_file, capfdbinary, expected
):
    translate(make_config(checkpoint, input=input_file, output_format=OutputFormat.nbest))

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
    translate(make_config(checkpoint, input=input_file, output_format=OutputFormat.json))

    lines = capfdbinary.readouterr().out.decode().splitlines()
    assert [json.loads(line)["source"] for line in lines] == SENTENCES


@pytest.mark.parametrize("decoding", [GREEDY, BEAM])
def test_alignments_have_a_line_of_links_for_each_line(
    checkpoint, input_file, tmp_path, capfdbinary, decoding
):
    path = tmp_path / "links.txt"

    translate(make_config(checkpoint, input=input_file, alignments=str(path), decoding=decoding))

    links = [gold.sure for gold in read_links(str(path))]
    translations = capfdbinary.readouterr().out.decode().splitlines()
    assert len(links) == len(translations) == len(SENTENCES)
    for text, its_links in zip(translations, links, strict=True):
        assert {target for _, target in its_links} <= set(range(len(text.split())))
    assert any(links)


def test_each_hypothesis_with_text_gets_a_picture(checkpoint, tmp_path, capfdbinary):
    (tmp_path / "input.txt").write_text("ja\n\nnein\n")
    directory = tmp_path / "new" / "plots"

    translate(
        make_config(checkpoint, input=str(tmp_path / "input.txt"), attention_plot=str(directory))
    )

    names = sorted(path.name for path in directory.iterdir())
    assert names == ["000000-2.png", "000000.png", "000002-2.png", "000002.png"]
    assert (directory / "000000.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.parametrize("key", ["alignments", "attention_plot"])
def test_attention_that_the_model_lacks_is_an_error_before_anything_is_written(
    tmp_path, input_file, key
):
    checkpoint = write_checkpoint(tmp_path / "run", "none")
    output = tmp_path / "output.txt"

    with pytest.raises(ValueError, match=f"{key}=.* needs attention"):
        translate(
            make_config(
                checkpoint, input=input_file, output=str(output), **{key: str(tmp_path / "x")}
            )
        )

    assert sorted(path.name for path in tmp_path.iterdir()) == ["input.txt", "run"]


def test_a_crash_halfway_leaves_no_output(checkpoint, input_file, tmp_path, monkeypatch):
    def crash(*arguments):
        raise RuntimeError

    monkeypatch.setattr(Translator, "_search", crash)

    with pytest.raises(RuntimeError):
        translate(make_config(checkpoint, input=input_file, output=str(tmp_path / "out.txt")))

    assert [path.name for path in tmp_path.iterdir()] == ["input.txt"]


def test_a_missing_input_is_an_error_with_its_path(checkpoint, tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere\.txt"):
        translate(make_config(checkpoint, input=str(tmp_path / "nowhere.txt")))


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

    translate(make_config(checkpoint))

    assert answers == ["", *(f"{expected[i].hypotheses[0].text}\n" for i in range(2))]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"batch_size": 0}, "batch_size=0"),
        ({"threads": 0}, "threads=0"),
        ({"text": "ja", "input": "a.txt"}, "exclude each other"),
    ],
)
def test_values_that_make_no_sense_are_refused_by_name(changes, message):
    with pytest.raises(ValueError, match=message):
        make_config("run", **changes)


def test_a_search_by_another_name_is_refused():
    renamed = type(GREEDY)(name="beam", max_length_ratio=1.0, max_length_offset=3)

    with pytest.raises(ValueError, match="one of beam, greedy"):
        make_config("run", decoding=renamed)


@settings(max_examples=200)
@given(text=st.text(alphabet="a\xe4 ,'\"\\${}=\n[](x):\u2028", max_size=10))
def test_any_text_passes_through_the_command_line_unchanged(text):
    [argument] = quote_plain_values([f"text={text}"])

    value = OverridesParser.create().parse_override(argument).value()

    assert OmegaConf.create({"text": value}).text == text


@pytest.mark.parametrize(
    "argument",
    ["decoding=beam", "--multirun", "input=null", "input='a,b'", "checkpoint=???", "text", "-m"],
)
def test_other_arguments_are_left_to_hydra(argument):
    assert quote_plain_values([argument]) == [argument]


def run_script(*arguments, content=b"", cwd):
    command = [sys.executable, str(ROOT / "translate.py"), "device=cpu", *map(str, arguments)]
    return subprocess.run(
        command,
        input=content,
        capture_output=True,
        cwd=cwd,
        timeout=100,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=False,
    )


def test_the_script_answers_bytes_on_standard_input_and_leaves_no_traces(checkpoint, tmp_path):
    content = b"\xef\xbb\xbfein hund\n\nzwei \xff hunde\xe2\x80\xa8\r\nja"

    done = run_script(f"checkpoint={checkpoint}", content=content, cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert done.stdout.count(b"\n") == 4
    assert done.stdout.split(b"\n")[1] == b""
    assert b"1 lines held bytes that are not UTF-8" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_the_script_ends_quietly_when_its_reader_goes(checkpoint, tmp_path):
    command = f"'{sys.executable}' '{ROOT}/translate.py' device=cpu checkpoint='{checkpoint}'"
    many = b"ja\n" * 50_000

    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command} batch_size=8 | head -n 2"],
        input=many,
        capture_output=True,
        cwd=tmp_path,
        timeout=100,
        check=False,
    )

    assert done.stdout.count(b"\n") == 2
    assert done.returncode == 0
    assert done.stderr == b""


def test_the_script_says_in_one_line_what_is_wrong(tmp_path):
    done = run_script("checkpoint=nowhere", "text=Zwei M\xe4nner, ein Hund", cwd=tmp_path)

    assert done.returncode == 2
    assert done.stdout == b""
    assert done.stderr.decode().splitlines()[-1].startswith("error: checkpoint=nowhere")
