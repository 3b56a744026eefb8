"""Read the commands and examples of a page, and run them with sizes that make them quick."""

import importlib.util
import os
import re
import runpy
import shlex
import subprocess
import sys
import textwrap
from pathlib import Path
from types import ModuleType

import pytest

from seq2seq.data.corpus import DATA
from seq2seq.model.recurrence import DECODERS
from seq2seq.search.searches import SEARCHES
from seq2seq.training.losses import LOSSES

ROOT = Path(__file__).parents[1]
BUILT = {ROOT / "docs" / "_static" / "study.html"}
"""Files that the build of the documentation writes."""
PLUGIN_PAGE = "docs/tutorials/new-attention-type.md"

QUICK_UPDATES = "training.max_updates=2"
QUICK = [
    "data.cache_dir=cache",
    "data.max_length=200",
    QUICK_UPDATES,
    "training.threads=1",
    "training.validation.num_samples=0",
    "training.batching.size=64",
    "model.embedding_size=8",
    "model.encoder.hidden_size=4",
    "model.decoder.hidden_size=8",
    "decoding.max_length_ratio=0",
]
QUICK_GRAMMAR = ["data.num_train=40"]


class Page:
    """A page of the documentation."""

    def __init__(self, path: str) -> None:
        """Read a page; `path` starts from the project's root."""
        self.name = path
        self._path = ROOT / path
        self.text = self._path.read_text(encoding="utf-8")

    def commands(self) -> list[str]:
        """Return the lines of the shell blocks, in their order; one that ends in `\\` goes on."""
        blocks = [re.sub(r" \\\n +", " ", block) for block in self.blocks("sh")]
        return [line for block in blocks for line in block.splitlines()]

    def run_examples(self, workplace: Path) -> None:
        """Run all Python blocks as one program, and forget the parts that it registers."""
        code = compile("\n".join(self.blocks("python")), f"<{self.name}>", "exec")
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(workplace)
            for registry in (DATA, DECODERS, LOSSES, SEARCHES):
                patch.setattr(registry, "_parts", dict(registry._parts))
            exec(code, {})

    def num_examples(self) -> int:
        return len(self.blocks("python"))

    def missing_links(self) -> list[str]:
        """Return the paths that the page links to and that do not exist."""
        found = re.findall(r"""(?:\]\(|<img src=")([^)"#]+)""", self.text)
        links = [link for link in found if "://" not in link]
        paths = {link: (self._path.parent / link).resolve() for link in links}
        return [link for link, path in paths.items() if not path.exists() and path not in BUILT]

    def blocks(self, language: str) -> list[str]:
        """Return the code blocks of a language, in lists too; those without one show output."""
        form = r"^( *)```(.*?)\n(.*?)^\1```$"
        blocks = re.findall(form, self.text, re.MULTILINE | re.DOTALL)
        return [
            textwrap.dedent(text) if indent else text
            for indent, name, text in blocks
            if name == language
        ]


def pages() -> dict[str, Page]:
    """Return the pages of docs/ and benchmarks/ by their paths."""
    found = [path for folder in ("docs", "benchmarks") for path in (ROOT / folder).rglob("*.md")]
    paths = sorted(str(path.relative_to(ROOT)) for path in found)
    return {path: Page(path) for path in paths if "_build" not in path}


def load_script(name: str) -> ModuleType:
    """Import a script of docs/, which stands in no package."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "docs" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "path", sys.path.copy())  # to which a script adds
        spec.loader.exec_module(module)
    return module


def quickened(arguments: list[str]) -> list[str]:
    """Add overrides that make a training small, without changing what the command shows."""
    if "--cfg" in arguments:
        return arguments
    downloaded = ("multi30k", "study_length", "study_self_attention", "tatoeba", "everyday")
    elsewhere = {"data=multi30k", "data.root=DIR", *(f"experiment={name}" for name in downloaded)}
    if elsewhere & {*arguments}:
        return [*first_job(arguments), "--cfg", "job"]  # nothing is downloaded
    if {f"experiment=study_{name}" for name in ("attention_types", "interventions")} & {*arguments}:
        # A few runs of the study; a test of the experiment composes all.
        few_types = [] if "attention=dot" in arguments else ["attention=none,dot"]
        arguments = [each for each in arguments if not each.startswith("seed=")]
        arguments += [*few_types, "seed=1"]
    arguments = [re.sub(r"^(seed=\d+,\d+),.*", r"\1", each) for each in arguments]
    # Of many types, the first and the last; test_pages.py looks the others up.
    arguments = [re.sub(r"^(attention=\w+),[\w,]+(,\w+)$", r"\1\2", each) for each in arguments]
    arguments = [each for each in arguments if not each.startswith("data.num_")]
    own_text = {"data=files", "data=huggingface"} & {*arguments}
    extra = QUICK + ([] if own_text else QUICK_GRAMMAR)
    given = {argument.partition("=")[0] for argument in arguments}
    if "training.validation.keep_best" in given:
        extra += ["training.validation.every_updates=1"]  # else there is one to keep
    few = [re.sub(r"^training\.max_updates=\d+$", QUICK_UPDATES, each) for each in arguments]
    return few + [override for override in extra if override.partition("=")[0] not in given]


def first_job(arguments: list[str]) -> list[str]:
    """Return the overrides of the first job, if the arguments are those of a sweep."""
    # A comma in brackets separates items of a list, not jobs.
    return [re.sub(r"^([^,[{]*),.*", r"\1", each) for each in arguments if each != "-m"]


def make_workplace(path: Path) -> Path:
    """Make a copy of the project as a user has it, with a plug-in and a trained run."""
    for name in ("configs", "seq2seq", "train.py", "translate.py"):
        (path / name).symlink_to(ROOT / name)
    (path / "data").mkdir()
    corpus = "data/german-english.tsv.gz"
    (path / corpus).symlink_to(ROOT / corpus)
    (path / "checkpoints").mkdir()
    model = "checkpoints/everyday-de-en"
    (path / model).symlink_to(ROOT / model)
    (path / "my").mkdir()
    (path / "my" / "cosine.py").write_text(Page(PLUGIN_PAGE).blocks("python")[0], encoding="utf-8")
    run_script(path, "train.py", quickened([]))
    return path


def run_script(workplace: Path, script: str, arguments: list[str]) -> None:
    """Run a script, or a module as `python -m` does, in this process, which has torch already."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(workplace)
        patch.setattr(sys, "argv", [script, *arguments])
        patch.setattr(sys, "path", sys.path.copy())
        patch.delitem(sys.modules, script, raising=False)
        try:
            if script.endswith(".py"):
                runpy.run_path(str(workplace / script), run_name="__main__")
            else:
                runpy.run_module(script, run_name="__main__")
        except SystemExit as end:
            assert not end.code, f"{script} {shlex.join(arguments)} ended with {end.code}"


def run_shell(workplace: Path, command: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a shell, in which a pipe fails if one of its parts fails."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-o", "pipefail", "-c", command],
        cwd=workplace,
        env={**os.environ, "PATH": path, "OMP_NUM_THREADS": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
