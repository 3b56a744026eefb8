"""Compare what the README shows with a trained model; test_pages.py runs its commands."""

import json
import re
import subprocess
from pathlib import Path

import pytest
from documents import ROOT, Page, run_script, run_shell

README = Page("README.md")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Train as the README does, in a minute or two."""
    path = tmp_path_factory.mktemp("readme")
    for name in ("configs", "data", "seq2seq", "train.py", "translate.py"):
        (path / name).symlink_to(ROOT / name)
    run_script(path, "train.py", ["training.threads=1", "data.cache_dir=cache"])
    return path


@pytest.mark.slow
def test_answers_are_those_that_are_shown(trained: Path) -> None:
    [asking] = [block for block in README.blocks("sh") if "Wo ist" in block]
    [shown] = [block for block in README.blocks("text") if "Where is" in block]

    done = run_shell(trained, asking)

    assert (done.stdout, done.returncode) == (shown, 0), done.stderr


@pytest.mark.slow
def test_scores_are_those_that_are_shown_up_to_rounding(trained: Path) -> None:
    test = json.loads((trained / "checkpoints/grammar-additive/results.json").read_text())["test"]
    shown = dict(re.findall(r"\b(BLEU|chrF|TER|AER) (\d+\.\d+)", " ".join(README.blocks("text"))))

    assert float(shown["BLEU"]) == pytest.approx(test["bleu"], abs=1)
    assert float(shown["chrF"]) == pytest.approx(test["chrf"], abs=1)
    assert float(shown["TER"]) == pytest.approx(test["ter"], abs=1)
    assert float(shown["AER"]) == pytest.approx(test["aer"], abs=0.03)


def test_readme_is_short() -> None:
    assert README.text.count("\n") <= 140


def test_without_the_pairs_make_everyday_says_where_they_are(tmp_path: Path) -> None:
    command = ["make", "--file", str(ROOT / "Makefile"), "everyday", "ROOT=nowhere"]

    refused = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)

    line, *_ = refused.stderr.splitlines()
    assert line.startswith("error: ROOT=nowhere has no train.de.gz; pairs of sentences are at tato")
    assert [*tmp_path.iterdir()] == []


def test_sample_replaces_no_file(tmp_path: Path) -> None:
    (tmp_path / "data").symlink_to(ROOT / "data")
    own = tmp_path / "my" / "train.en"
    own.parent.mkdir()
    own.write_text("mein\tmine\n")
    command = ["make", "--file", str(ROOT / "Makefile"), "sample"]

    refused = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)

    assert refused.returncode != 0
    assert "my/train.en exists" in refused.stderr
    assert [*own.parent.iterdir()] == [own]
    assert own.read_text() == "mein\tmine\n"

    own.unlink()
    subprocess.run(command, cwd=tmp_path, check=True)
    own.write_text("mine\n")
    subprocess.run(command, cwd=tmp_path, check=True)

    assert own.read_text() == "mine\n"
    assert len([*own.parent.iterdir()]) == 12
