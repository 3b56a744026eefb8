import json
import re
import signal
import subprocess
import sys
import urllib.request

import pytest
from tiny_service import KEYS, make_serve_config
from tiny_translator import SENTENCES, make_translator

from seq2seq.cli import serve
from seq2seq.files.paths import file_sha256
from seq2seq.inference.translator import Translator
from seq2seq.search.config import GreedyConfig


@pytest.mark.parametrize(
    ("argument", "paths"),
    [
        ("checkpoint=a", ["a"]),
        ("checkpoint=[runs/a,b c]", ["runs/a", "b c"]),
    ],
)
def test_each_checkpoint_is_a_model(run, monkeypatch, argument, paths):
    served = []

    def record(config):
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN  # there is no model yet
        served.append(config)

    monkeypatch.setattr(serve, "serve", record)

    assert run(serve.main, argument, "decoding=greedy", "port=0") == (0, "", "")
    [config] = served
    assert config.checkpoint == paths
    assert (config.host, config.port, config.decoding) == ("127.0.0.1", 0, GreedyConfig())


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "checkpoint needs a value; give checkpoint=..."),
        (["checkpoint=a", "decoding=sampling"], "decoding=sampling: the service searches with"),
        (["checkpoint=a", "port=0"], "a: no such file or directory"),
        (["checkpoint=a", "api_keys=k", "port=0"], "k: no such file or directory"),
        (["checkpoint=a", "host=192.0.2.1"], "host=192.0.2.1 port=5000: "),
    ],
)
def test_a_wrong_argument_is_one_line(refusal, arguments, message):
    assert refusal(serve.main, *arguments).startswith(message)


@pytest.mark.parametrize("package", ["prometheus_client", "python_multipart", "uvicorn"])
def test_a_service_without_its_packages_is_refused_in_one_line(package):
    code = (
        f"import sys; sys.modules['{package}'] = None; from seq2seq.cli import serve; serve.main()"
    )

    done = subprocess.run(
        [sys.executable, "-c", code, "checkpoint=a"], capture_output=True, text=True, check=False
    )

    line = rf"error: this command needs the package {package}.*; .* run pip install '\.\[serve\]'\n"
    assert (done.returncode, done.stdout) == (2, "")
    assert re.fullmatch(line, done.stderr), done.stderr


def test_a_checkpoint_gives_its_languages_and_translations(checkpoint):
    [(pair, model)] = serve.load_model(str(checkpoint), make_serve_config()).items()

    assert pair == ("de", "en")
    assert (model.name, model.sha256) == ("run", file_sha256(checkpoint / "best.pt"))
    assert [each.text for each in model.translate(SENTENCES, GreedyConfig())] == [
        each.text for each in make_translator()(SENTENCES)
    ]


def test_an_exported_folder_answers_as_its_checkpoint(checkpoint_path, exported):
    pair = ("de", "en")
    torch_model = serve.load_model(str(checkpoint_path), make_serve_config())[pair]
    onnx_model = serve.load_model(str(exported), make_serve_config())[pair]

    assert torch_model.name == f"{checkpoint_path.parent.name}/best.pt"
    assert onnx_model.name == "exported"
    assert onnx_model.sha256 == file_sha256(exported / "runtime.json")
    torch_texts, onnx_texts = (
        [each.text for each in model.translate(SENTENCES, GreedyConfig())]
        for model in (torch_model, onnx_model)
    )
    assert onnx_texts == torch_texts


def test_an_exported_folder_is_served_without_torch(exported):
    code = "import sys; sys.modules['torch'] = None; from seq2seq.cli import serve; serve.main()"
    arguments = [f"checkpoint={exported}", "decoding=greedy", "port=0"]
    process = subprocess.Popen(
        [sys.executable, "-c", code, *arguments], stderr=subprocess.PIPE, text=True
    )
    try:
        started = process.stderr.readline()
        port = re.search(r":(\d+)/$", started)
        assert port, started
        body = b"q=ein+hund&source=de&target=en"
        with urllib.request.urlopen(f"http://127.0.0.1:{port[1]}/translate", body) as answer:
            found = json.load(answer)
    finally:
        process.terminate()
        process.communicate(timeout=20)

    [expected] = Translator.load(exported)(["ein hund"], GreedyConfig())
    assert found == {"translatedText": expected.text}
    assert process.returncode == 0


def test_an_exported_folder_keeps_its_precision(exported):
    with pytest.raises(ValueError, match=r"precision=bf16 do not fit an exported"):
        serve.load_model(str(exported), make_serve_config(precision="bf16"))


def test_keys_are_the_lines_of_a_file(tmp_path):
    path = tmp_path / "keys"
    path.write_text(f"{KEYS[0]}\n\n {KEYS[1]} \r\n")

    assert serve.read_keys(str(path)) == list(KEYS)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", ":1: the key has 0 characters; write keys of at least 16"),
        ("0123456789abcdef\nshort\n", ":2: the key has 5"),
    ],
)
def test_a_file_without_safe_keys_is_refused(tmp_path, text, message):
    path = tmp_path / "keys"
    path.write_text(text)

    with pytest.raises(ValueError, match=message) as error:
        serve.read_keys(str(path))
    assert "short" not in str(error.value)
