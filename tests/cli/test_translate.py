import json
import math
import os
import re
import select
import shlex
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from tiny_translator import (
    BEAM,
    SENTENCES,
    make_checkpoint,
    make_translate_config,
    make_translator,
    write_checkpoint,
)

from seq2seq.cli.translate import main, translate
from seq2seq.evaluation.confidence import Confidence
from seq2seq.files.links import format_links
from seq2seq.inference.checkpoint import save_checkpoint

ROOT = Path(__file__).parents[2]
SCRIPT = [sys.executable, str(ROOT / "translate.py"), "device=cpu"]


def test_the_script_answers_bytes_on_standard_input_and_leaves_no_traces(checkpoint, tmp_path):
    content = b"\xef\xbb\xbfein hund\n\nzwei \xff hunde\xe2\x80\xa8\r\nja"

    done = subprocess.run(
        [*SCRIPT, f"checkpoint={checkpoint}"],
        input=content,
        capture_output=True,
        cwd=tmp_path,
        timeout=100,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert done.stdout.count(b"\n") == 4
    assert done.stdout.split(b"\n")[1] == b""
    assert b"lines affected: 1 (the first: line 3)\n" in done.stderr
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["modle=dot"], "unknown key 'modle'; one of: alignments, "),
        (["checkpoint=nowhere", "text=Zwei M\xe4nner, 1"], "nowhere: no such file"),
    ],
)
def test_a_mistake_is_one_line_and_leaves_no_traces(refusal, tmp_path, arguments, line):
    assert refusal(main, *arguments).startswith(line)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("is_asked_for", [True, False])
def test_the_expected_chrf_is_in_json_and_summed_up(run, tmp_path, caplog, is_asked_for):
    line = Confidence(slope=20.0, intercept=50.0, spread=9.0, mean=70.0, first_fifth=69.5)
    save_checkpoint(tmp_path / "best.pt", replace(make_checkpoint(), confidence=line))
    (tmp_path / "in.txt").write_text("ein hund\n\nja\n")
    keys = ["checkpoint=best.pt", "input=in.txt", "output_format=json", "device=cpu"]

    caplog.set_level("INFO")
    code, out, _ = run(main, *keys, f"expected_chrf={str(is_asked_for).lower()}")

    assert code == 0
    first, empty, third = (json.loads(each) for each in out.splitlines())
    summary = [each for each in caplog.messages if each.startswith("expected chrF")]
    assert empty["expected_chrf"] is None
    if not is_asked_for:
        assert (first["expected_chrf"], summary) == (None, [])
        return
    values = first["sentences"][0]["hypotheses"][0]["token_log_probabilities"]
    root = math.exp(sum(values) / len(values) / 2)
    assert first["expected_chrf"] == pytest.approx(50 + 20 * root, abs=0.06)
    mean = (first["expected_chrf"] + third["expected_chrf"]) / 2
    order = "1, 3" if first["expected_chrf"] < third["expected_chrf"] else "3, 1"
    assert summary == [
        f"expected chrF {mean:.0f}; text of the training's kind has 70; "
        f"this text is unlike the training text; read first: lines {order}"
    ]


def test_a_closed_pipe_is_no_error_and_files_are_complete(checkpoint, tmp_path):
    keys = [f"checkpoint={checkpoint}", "batch_size=8", "alignments=links.txt"]
    keys += ["decoding.min_length=2"]  # without which a warning counts empty translations

    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {shlex.join(SCRIPT + keys)} | head -n 2"],
        input=b"ja\n" * 2000,
        capture_output=True,
        cwd=tmp_path,
        timeout=100,
        check=False,
    )

    assert done.stdout.count(b"\n") == 2
    assert (done.returncode, done.stderr) == (0, b"")
    assert (tmp_path / "links.txt").read_bytes().count(b"\n") == 2000


def test_a_terminated_script_leaves_no_unfinished_file(checkpoint, tmp_path):
    command, pipe = [*SCRIPT, f"checkpoint={checkpoint}", "output=out.en"], subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, cwd=tmp_path, stderr=pipe) as process:
        process.stdin.write(b"ein hund\n")
        process.stdin.flush()
        while not list(tmp_path.iterdir()):
            assert process.poll() is None, process.stderr.read()
            time.sleep(0.05)

        process.terminate()

        assert process.wait(timeout=60) == 128 + signal.SIGTERM
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("script", ["train.py", "translate.py"])
def test_ctrl_c_while_a_script_starts_is_one_line(tmp_path, script):
    (tmp_path / "hydra.py").write_text("import signal\nsignal.raise_signal(signal.SIGINT)\n")

    done = subprocess.run(
        [sys.executable, str(ROOT / script)],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        check=False,
    )

    assert (done.returncode, done.stderr) == (128 + signal.SIGINT, b"stopped by Ctrl-C\n")


@pytest.fixture(scope="module")
def expected():
    return make_translator()(SENTENCES, BEAM, batch_size=1)


@pytest.fixture
def write(tmp_path):
    """Return what writes lines into a file and returns its path."""

    def write_lines(name, lines):
        content = "".join(f"{line}\n" for line in lines)
        (tmp_path / name).write_text(content, encoding="utf-8")
        return str(tmp_path / name)

    return write_lines


@pytest.fixture
def input_file(write):
    return write("input.txt", SENTENCES)


def test_a_file_becomes_a_file_of_as_many_lines(checkpoint, input_file, tmp_path, expected):
    output = tmp_path / "output.txt"

    translate(make_translate_config(checkpoint, input=input_file, output=str(output)))

    lines = output.read_bytes().decode().split("\n")
    assert lines == [*(translation.best.text for translation in expected), ""]
    assert lines[2] == lines[4] == ""


@pytest.mark.parametrize(("text", "num_lines"), [("", 1), ("ja\n\nnein", 3), ("j\udcff", 1)])
def test_any_text_gets_a_line_for_each_of_its_lines(checkpoint, capfdbinary, text, num_lines):
    translate(make_translate_config(checkpoint, text=text))

    assert capfdbinary.readouterr().out.count(b"\n") == num_lines


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


@pytest.fixture
def terminal(monkeypatch):
    """Let standard input be a terminal."""
    monkeypatch.setattr(sys, "stdin", SimpleNamespace(isatty=lambda: True))


@pytest.mark.usefixtures("terminal")
def test_each_line_at_the_prompt_is_answered_at_once(
    checkpoint, monkeypatch, capfdbinary, expected
):
    answers = []

    def type_line(prompt):
        answers.append(capfdbinary.readouterr().out.decode())
        if len(answers) > 2:
            raise EOFError
        return SENTENCES[len(answers) - 1]

    monkeypatch.setattr("builtins.input", type_line)

    translate(make_translate_config(checkpoint))

    assert answers == ["", *(f"{expected[i].hypotheses[0].text}\n" for i in range(2))]


@pytest.fixture
def without_torch(tmp_path):
    """Return what runs the command in a process that cannot import torch or pandas."""
    code = (
        "import sys; sys.modules.update(torch=None, pandas=None); "
        "from seq2seq.cli import translate as command; "
    )

    def run_command(*arguments):
        return subprocess.run(
            [sys.executable, "-c", code + "command.main()", *arguments],
            capture_output=True,
            cwd=tmp_path,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            timeout=100,
            check=False,
        )

    return run_command


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"decoding": "greedy", "batch_size": 2, "split": "never"},
        {"decoding.n_best": 3, "output_format": "nbest"},
    ],
)
def test_an_exported_folder_gives_the_output_of_its_checkpoint_without_torch(
    checkpoint_path, exported, tmp_path, run, without_torch, caplog, keys
):
    (tmp_path / "in.de").write_text("Ein hund \u03be. Zwei 12\n\n12:30\nder mann 7\n\ufffd\n")
    arguments = [f"{key}={value}" for key, value in {"input": "in.de", **keys}.items()]
    run(main, f"checkpoint={checkpoint_path}", "device=cpu", "output=torch.en", *arguments)

    done = without_torch(f"checkpoint={exported}", "output=onnx.en", *arguments)

    assert done.returncode == 0, done.stderr
    texts = [(tmp_path / f"{name}.en").read_text() for name in ("torch", "onnx")]
    # The last digits of a score may differ.
    expected, found = (re.sub(r" [|]{3} -\d+[.]\d+$", "", text, flags=re.M) for text in texts)
    assert found == expected
    warnings = [each.getMessage() for each in caplog.records if each.levelname == "WARNING"]
    *found, expected = done.stderr.decode().splitlines()
    assert found == [f"warning: {text}" for text in warnings]
    assert expected.startswith("expected chrF ")


def test_attention_of_an_exported_folder_is_shown_without_torch(exported, tmp_path, without_torch):
    keys = ["text=ein hund", "output_format=json", "attention_html=page.html"]
    done = without_torch(f"checkpoint={exported}", *keys)

    [sentence] = json.loads(done.stdout)["sentences"]
    [hypothesis] = sentence["hypotheses"]
    page = (tmp_path / "page.html").read_text()
    [shown] = re.findall(r'<script type="application/json" class="attention">(.*)</script>', page)
    assert json.loads(shown)["weights"] == [
        [[round(1000 * weight) for weight in row] for row in head]
        for head in hypothesis["attention"]
    ]


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        ([], "this needs the package torch; without it, only a folder that seq2seq-export wrote"),
        (
            ["checkpoint={}", "decoding=sampling"],
            "exported models do not support decoding=sampling; use greedy",
        ),
    ],
)
def test_what_needs_torch_is_refused_in_one_line_without_it(
    exported, without_torch, arguments, line
):
    done = without_torch("checkpoint=a", "text=ja", *(each.format(exported) for each in arguments))

    assert (done.returncode, done.stdout, done.stderr.count(b"\n")) == (2, b"", 1), done.stderr
    assert done.stderr.decode().startswith(f"error: {line}")


REFERENCES = ["ab cd", "a.", "", "hgfe dcb a", "", "ab cd", "c", "e f"]


@pytest.fixture(scope="module")
def links():
    """Return the links of each reference."""
    translator = make_translator()
    pairs = zip(SENTENCES, REFERENCES, strict=True)
    return [translator.links(each) for each in translator.score(pairs)]


@pytest.fixture
def files(input_file, write):
    """Write input and reference."""
    return {"input": input_file, "reference": write("reference.txt", REFERENCES)}


def test_each_hypothesis_with_text_gets_a_picture(checkpoint, tmp_path, write, capfdbinary):
    path = write("input.txt", ["ja", "", "Nein. Na ja."])
    directory = tmp_path / "new" / "plots"

    translate(make_translate_config(checkpoint, input=path, attention_plot=str(directory)))

    names = sorted(path.name for path in directory.iterdir())
    of_second = ["000002.1-2.png", "000002.1.png", "000002.2-2.png", "000002.2.png"]
    assert names == ["000000-2.png", "000000.png", *of_second]
    assert (directory / "000000.png").read_bytes().startswith(b"\x89PNG")


def test_a_file_instead_of_a_directory_of_pictures_is_refused(checkpoint, write):
    path = write("a.txt", ["ja"])

    with pytest.raises(FileExistsError, match=r"a\.txt"):
        translate(make_translate_config(checkpoint, text="ja", attention_plot=path))

    assert Path(path).read_text() == "ja\n"


@pytest.mark.parametrize("key", ["alignments", "attention_plot", "attention_html"])
def test_reports_of_a_model_without_attention_are_an_error_before_anything_is_written(
    tmp_path, files, key
):
    checkpoint = write_checkpoint(tmp_path / "run", "none")
    output = tmp_path / "output.txt"

    with pytest.raises(ValueError, match=f"{key}=.* needs attention"):
        translate(
            make_translate_config(
                checkpoint, **files, output=str(output), **{key: str(tmp_path / "x")}
            )
        )

    assert sorted(path.name for path in tmp_path.iterdir()) == ["input.txt", "reference.txt", "run"]


def test_alignments_of_a_reference_are_those_of_its_words(
    checkpoint, files, tmp_path, capfdbinary, links
):
    path = tmp_path / "links.txt"

    translate(make_translate_config(checkpoint, **files, alignments=str(path)))

    assert path.read_text().splitlines() == [format_links(each) for each in links]
    for each, reference in zip(links, REFERENCES, strict=True):
        assert {target for _, target in each} <= set(range(len(reference.split())))


def test_the_page_has_the_best_translation_of_each_line_with_text(
    checkpoint, input_file, tmp_path, capfdbinary
):
    path = tmp_path / "page.html"

    translate(make_translate_config(checkpoint, input=input_file, attention_html=str(path)))

    page = path.read_bytes()
    assert page.rstrip().endswith(b"</html>")
    notes = [
        f'"note":"line {row}, log-probability -' for row, s in enumerate(SENTENCES, 1) if s.strip()
    ]
    assert all(page.count(note.encode()) == 1 for note in notes)
    assert page.count(b'"note":') == len(notes)
