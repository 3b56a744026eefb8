"""Run the commands and examples of the README and of docs/, with sizes that make them quick."""

import contextlib
import gzip
import json
import re
import shlex
import shutil
import warnings
from collections.abc import Callable, Iterator
from contextlib import redirect_stdout
from dataclasses import fields, is_dataclass
from functools import cache, partial
from io import StringIO
from pathlib import Path

import pytest
from documents import (
    PLUGIN_PAGE,
    ROOT,
    Page,
    first_job,
    make_workplace,
    pages,
    quickened,
    run_script,
    run_shell,
)
from tiny_service import running
from web_runtime_cache import CACHE, PACKAGE

from seq2seq.cli.command_line import load_command
from seq2seq.cli.prepare import PrepareConfig
from seq2seq.cli.score import ScoreConfig
from seq2seq.cli.serve import load_model, read_keys
from seq2seq.cli.translate_config import TranslateConfig
from seq2seq.config.schema import TrainConfig, config_groups, load_config
from seq2seq.search.config import BeamConfig, GreedyConfig, MbrConfig, SamplingConfig
from seq2seq.serving.models import ServeConfig

PAGES = {"README.md": Page("README.md"), **pages()}
TESTED_ELSEWHERE = (
    "docs/how-to/own-parts.md",
    "docs/how-to/several-machines.md",
    "docs/tutorials/kernel-regression.md",
    PLUGIN_PAGE,
)
"""pages whose code has a test of its own"""
HERE = [page for path, page in PAGES.items() if path not in TESTED_ELSEWHERE]
COMMANDS = list(dict.fromkeys(command for page in HERE for command in page.commands()))
"""each once, in the order of the pages"""
WRITTEN = ("output", "alignments", "attention_plot", "attention_html")
"""keys of files that a command writes"""
PYPROJECT = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
MAKEFILE = (ROOT / "Makefile").read_text(encoding="utf-8")
BENCHMARK_TESTS = (ROOT / "tests/benchmarks/test_scripts.py").read_text(encoding="utf-8")
SAMPLE = {
    f"my/{part}.{kind}"
    for part in ("train", "valid", "test")
    for kind in ("de", "en", "tsv", "align")
}
"""files that `make sample` writes"""


@pytest.fixture(scope="module")
def workplace(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with contextlib.ExitStack() as services:
        SERVICES[:] = [services]
        yield make_workplace(tmp_path_factory.mktemp("pages"))


SERVICES: list[contextlib.ExitStack] = []
"""what stops the service of the last command that started one"""


def run_make(workplace: Path, command: str) -> None:
    """Look the target and its variables up in the Makefile."""
    _, target, *variables = shlex.split(command)
    assert re.search(rf"^{target}:", MAKEFILE, re.MULTILINE)
    for variable in variables:
        assert re.search(rf"\b{variable.partition('=')[0]}\b", MAKEFILE)


def run_sample(workplace: Path, command: str) -> None:
    """Write the files, and keep four lines of each, to be quick."""
    done = run_shell(workplace, f"{command} --always-make --file={ROOT / 'Makefile'}")
    assert done.returncode == 0, done.stderr
    for path in (workplace / file for file in SAMPLE):
        lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
        assert len(lines) == (5000 if path.stem == "train" else 250)
        path.write_text("".join(lines[:4]), encoding="utf-8")


def run_installation(workplace: Path, command: str) -> None:
    """Look the extras up in pyproject.toml; nothing is downloaded."""
    for extra in re.findall(r"\[(\w+)\]", command):
        assert re.search(rf"^{extra} = \[", PYPROJECT, re.MULTILINE)


def run_training(workplace: Path, command: str) -> None:
    arguments = quickened(shlex.split(command)[2:])
    given = {argument.partition("=")[0] for argument in arguments}
    if not given & {"resume", "overwrite", "--cfg"}:
        arguments.append("overwrite=true")  # another page may use the same name
    run_script(workplace, "train.py", arguments)


def run_translation(workplace: Path, command: str) -> None:
    run_script(workplace, "translate.py", shlex.split(command)[2:])


def run_command(workplace: Path, command: str) -> None:
    """Run one of the smaller commands, whose arguments may have wildcards."""
    module, *arguments = shlex.split(command)[2:]
    few = ["valid=1", "test=1"]  # of the four pairs that are left of the sample
    given: list[str] = few if module == "seq2seq.cli.prepare" else []
    for each in arguments:
        found = sorted(str(path.relative_to(workplace)) for path in workplace.glob(each))
        given += found or [each]
    run_script(workplace, module, given)


def run_page_export(workplace: Path, command: str) -> None:
    """Write a page, if onnxruntime-web is on disk; nothing is downloaded."""
    package = CACHE / PACKAGE
    if not package.exists():
        pytest.skip(f"needs onnxruntime-web: {package}")
    cached = workplace / "data" / "cache" / PACKAGE
    if not cached.exists():
        cached.parent.mkdir(exist_ok=True)
        shutil.copyfile(package, cached)
    run_command(workplace, command)


def run_service(workplace: Path, command: str) -> None:
    """Start a service in this process, on a free port; one without models is only composed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(workplace)
        config = load_command("serve", ServeConfig, shlex.split(command)[1:])
        if not all((workplace / path).exists() for path in config.checkpoint):
            return
        keys = read_keys(config.api_keys) if config.api_keys else []
        SERVICES[0].close()
        load = partial(load_model, config=config)
        live = SERVICES[0].enter_context(running(config, load=load, read_keys=lambda: keys))
        (workplace / "port").write_text(str(live.port))


def run_curl(workplace: Path, command: str) -> None:
    port = (workplace / "port").read_text()
    done = run_shell(workplace, command.replace("localhost:5000", f"127.0.0.1:{port}"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert isinstance(json.loads(done.stdout), dict | list)


def run_docker(workplace: Path, command: str) -> None:
    """Look up the files that it reads; there may be no daemon here."""
    files = ["compose.yaml", "Dockerfile"] if "compose" in command else ["Dockerfile"]
    assert [file for file in files if not (ROOT / file).exists()] == []


def run_in_shell(workplace: Path, command: str) -> None:
    done = run_shell(workplace, command)
    assert done.returncode == 0, done.stderr


def run_on_page(workplace: Path, command: str) -> None:
    """Run a command that reads a page of the documentation."""
    run_in_shell(workplace, command.replace(" docs/", f" {ROOT}/docs/"))


def compose_training(workplace: Path, command: str) -> None:
    """Compose the first job of what starts processes of its own.

    tests/training/test_processes.py and tests/cli/test_launchers.py run such trainings.
    """
    arguments = shlex.split(command.partition("train.py ")[2])
    run_script(workplace, "train.py", [*first_job(quickened(arguments)), "--cfg", "all"])


def run_search(workplace: Path, command: str) -> None:
    few = re.sub(r" hydra\.sweeper\.n_trials=\d+", " hydra.sweeper.n_trials=1", command)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # at the import of optuna
        run_training(workplace, few)


def run_tensorboard(workplace: Path, command: str) -> None:
    done = run_shell(workplace, f"{command} --inspect")
    assert done.returncode == 0, done.stderr
    assert "valid/bleu" in done.stdout


def run_measurement(workplace: Path, command: str) -> None:
    """Look the options up in --help; the other arguments are keys of training and translating."""
    arguments = shlex.split(command)
    kind = " ".join(a for a in arguments[2:3] if a.isalpha())  # each has options of its own
    options = [a for a in arguments if a.startswith("--")]
    assert [a for a in options if f"{a} " not in help_of(f"{arguments[1]} {kind}")] == []


def find_script(workplace: Path, command: str) -> None:
    """Look for the script; a test of the benchmarks runs it."""
    [script] = re.findall(r"benchmarks/\w+\.py", command)
    assert script.removesuffix(".py").split("/")[1] in BENCHMARK_TESTS


@cache
def help_of(script: str) -> str:
    path, *kind = script.split()
    with redirect_stdout(StringIO()) as text:
        run_script(ROOT, path, [*kind, "--help"])
    return text.getvalue()


ARGUMENTS = r"""(?:[^|>*"']|"[^"]*"|'[^']*')*"""
"""arguments without a pipe or a file to write, except inside quotes"""
RUNNERS: dict[str, Callable[[Path, str], None]] = {
    r"make sample": run_sample,
    r"make \w+( [A-Z_]+=\S+)*": run_make,
    r"pip install .*|python3 -m venv \.venv|source \.venv/bin/activate": run_installation,
    r"python train\.py .*hydra/launcher=.*": compose_training,
    r"python train\.py .*hparams_search=.*": run_search,
    rf"python train\.py{ARGUMENTS}": run_training,
    r"torchrun .* benchmarks/.*": find_script,
    r"torchrun .* train\.py .*": compose_training,
    r"python translate\.py checkpoint=\S+": run_in_shell,  # an empty prompt
    rf"python translate\.py {ARGUMENTS}": run_translation,
    r"python -m seq2seq\.cli\.export .*format=web.*": run_page_export,
    r"python -m seq2seq\.cli\.(score|average|prepare|report|export) .*": run_command,
    r"tensorboard .*": run_tensorboard,
    r"python benchmarks/[a-z0-9_]+\.py .*": run_measurement,
    r"eval .*": run_in_shell,
    r"seq2seq-serve .*": run_service,
    r"curl .*": run_curl,
    r"docker (build|run|compose) .*": run_docker,
    r"(cp|gzip|head|mkdir|paste|printf|sort|tail) .*|cat [^|]*": run_in_shell,
    r"(echo|cat|sed) .* \| python translate\.py .*": run_in_shell,
    r"sed .* docs/\S+ > \S+": run_on_page,
    r"python translate\.py .* \| head .*": run_in_shell,
}
"""how a command is run, by a pattern of all of it; the first that fits"""


def runner(command: str) -> Callable[[Path, str], None] | None:
    return next((run for form, run in RUNNERS.items() if re.fullmatch(form, command)), None)


def paths_of(workplace: Path, command: str, *keys: str) -> list[Path]:
    """Return the paths that are values of the keys in a command."""
    pairs = (
        argument.split("=", maxsplit=1) for argument in shlex.split(command) if "=" in argument
    )
    values = (value for key, value in pairs if key in keys)
    return [workplace / path for value in values for path in value.strip("[]").split(",")]


def num_lines(paths: list[Path]) -> int:
    """Return how many lines the files have, packed ones too."""
    contents = (path.read_bytes() for path in paths)
    unpacked = (gzip.decompress(c) if c.startswith(b"\x1f\x8b") else c for c in contents)
    return sum(content.count(b"\n") for content in unpacked)


def kinds(command: str) -> set[tuple[str, str]]:
    """Return the program of a command with each of its flags, a key up to its second part."""
    program = re.search(r"\w+\.py|seq2seq\.cli\.\w+|^\w+", command)
    assert program
    words = [word for word in shlex.split(command) if "=" in word or word.startswith("--")]
    flags = {".".join(word.partition("=")[0].split(".")[:2]) for word in words}
    return {(program[0], flag) for flag in flags | {""}}


def made(command: str) -> list[str]:
    """Return the runs and files that a command makes, in the words of commands that read them."""
    names = re.findall(r"run_name=(\S+)", command)
    words = [f"{place}{name}" for name in names for place in ("checkpoints/", "run_name=")]
    return words + re.findall(r"(?:output|hydra\.sweep\.dir)=(\S+)", command)


def first_of_each_kind() -> list[str]:
    """Return the first command of each kind, those that make what it reads, and all quick ones.

    The examples in Python read files too.
    """
    examples = [text for page in HERE for text in page.blocks("python")]
    seen: set[tuple[str, str]] = set()
    chosen: list[str] = []
    first = [each for each in COMMANDS if runner(each) not in LONG]
    for command in COMMANDS:
        if kinds(command) - seen:
            first.append(command)
        seen |= kinds(command)
    for command in reversed(COMMANDS):
        read = [re.sub(r"output=\S+", "", later) for later in chosen]
        read += examples
        if command in first or any(word in later for word in made(command) for later in read):
            chosen.append(command)
    return chosen[::-1]


LONG = {run_training, run_translation, run_command, run_page_export, run_search}
"""what runs a command that may take a second or more"""
FIRST = first_of_each_kind()
OTHERS = [command for command in COMMANDS if command not in FIRST]


@pytest.mark.parametrize(
    "command",
    [pytest.param(each, marks=pytest.mark.slow if each in OTHERS else ()) for each in COMMANDS],
)
def test_every_command_runs(workplace: Path, command: str) -> None:
    """The files that it names exist afterwards; the slow ones read what the others have made."""
    run = runner(command)
    assert run is not None, "no way to run it is known: add one to RUNNERS"
    written = paths_of(workplace, command, *WRITTEN)
    for path in written:
        if path.is_file():
            path.unlink()  # of an earlier command

    run(workplace, command)

    assert [path for path in written if not path.exists()] == []
    outputs, inputs = (paths_of(workplace, command, key) for key in ("output", "input"))
    if outputs and inputs and outputs[0].is_file():
        assert num_lines(outputs) == num_lines(inputs) > 0


@pytest.mark.parametrize("path", [page.name for page in HERE if page.num_examples()])
def test_python_examples_run(
    workplace: Path, capsys: pytest.CaptureFixture[str], path: str
) -> None:
    PAGES[path].run_examples(workplace)

    printed = capsys.readouterr().out
    assert printed
    if "/explanation/" in path:  # where nothing is trained
        assert printed == "".join(PAGES[path].blocks(""))


EXPERIMENTS = [
    text for page in HERE for text in page.blocks("yaml") if text.startswith("# @package _global_")
]


@pytest.mark.parametrize("text", EXPERIMENTS)
def test_experiments_of_pages_compose(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    configs = tmp_path / "configs"
    shutil.copytree(ROOT / "configs", configs)
    monkeypatch.setattr("seq2seq.config.composition.resource", lambda name: configs)
    (configs / "experiment" / "of_a_page.yaml").write_text(text)

    assert load_config("experiment=of_a_page") != load_config()


@pytest.mark.parametrize(
    "path",
    [path for path in PAGES if "/how-to/" in path or "/tutorials/" in path or "/" not in path],
)
def test_files_of_a_page_are_made_by_lines_above(path: str) -> None:
    made = {"my/books", "my/cosine.py"}  # pages say what they contain
    missing = []
    for command in PAGES[path].commands():
        writes = {*SAMPLE} if command == "make sample" else set()
        writes |= set(re.findall(r"> (my/[^ ;]+)", command))
        writes |= set(re.findall(r"cp \S+ (my/\S+)", command))
        writes |= {f"{file}.gz" for file in re.findall(r"gzip .* (my/\S+)", command)}
        for key, value in (word.split("=", 1) for word in shlex.split(command) if "=" in word):
            writes |= set(re.findall(r"my/[^],]+", value)) if key in WRITTEN else set()
        named = re.findall(r"my/[\w./-]+", command)
        missing += [
            (file, command)
            for file in named
            if not any(f"{file}/".startswith(f"{each}/") for each in made | writes)
        ]
        made |= writes

    assert missing == []


@pytest.mark.parametrize("path", PAGES)
def test_every_linked_file_exists(path: str) -> None:
    assert PAGES[path].missing_links() == []


def test_every_module_that_a_page_names_exists() -> None:
    text = "".join(page.text for page in HERE)
    paths = re.findall(r"`(seq2seq/[\w/]+\.py)`", text)
    dotted = re.findall(r"`(seq2seq(?:\.[a-z_]+)+)`", text)
    paths += [name.replace(".", "/") for name in dotted]

    assert len(paths) > 10
    known = [path for path in paths if (ROOT / path).exists() or (ROOT / f"{path}.py").exists()]
    assert sorted(set(paths) - set(known)) == []


def test_every_key_of_translating_and_scoring_has_its_recipe() -> None:
    searches = (GreedyConfig, BeamConfig, MbrConfig, SamplingConfig)
    keys = {
        f"decoding.{each.name}=" if config in searches else f"{each.name}="
        for config in (TranslateConfig, ScoreConfig, *searches)
        for each in fields(config)
        if each.name != "name"
    }

    commands = " ".join(command for page in PAGES.values() for command in page.commands())
    assert sorted(key for key in keys if key not in commands) == []


def test_every_attention_type_of_a_sweep_exists() -> None:
    types = {
        name for command in COMMANDS for name in re.findall(r"(?<!\w)attention=([\w,]+)", command)
    }

    assert types
    assert {name for names in types for name in names.split(",")} <= {
        *config_groups()["attention"],
        "cosine",
    }


def test_tab_completes_a_choice(
    workplace: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    line = "python train.py attention=m"
    monkeypatch.setenv("COMP_LINE", line)
    monkeypatch.setenv("COMP_POINT", str(len(line)))

    run_script(workplace, "train.py", ["-sc", "query=bash"])

    assert capsys.readouterr().out.split() == ["attention=multihead"]


def keys_of(config: type, prefix: str = "") -> set[str]:
    """Return the dotted keys of a configuration and its parts."""
    keys = set()
    for each in fields(config):
        keys.add(f"{prefix}{each.name}")
        if isinstance(each.type, type) and is_dataclass(each.type):
            keys |= keys_of(each.type, f"{prefix}{each.name}.")
    return keys


def test_every_key_that_a_page_names_exists() -> None:
    known = keys_of(TrainConfig) | keys_of(TranslateConfig) | keys_of(ServeConfig)
    for group, types in config_groups().items():
        known |= {key for config in types.values() for key in keys_of(config, f"{group}.")}
    example = (ROOT / "docs/examples/huggingface.py").read_text(encoding="utf-8")
    known |= {f"data.{name}" for name in re.findall(r"^    (\w+): ", example, re.MULTILINE)}
    groups = {*config_groups(), "model", "training"}
    pattern = re.compile(rf"`((?:{'|'.join(sorted(groups))})\.[a-z_.]+)(?:=[^`]*)?`")

    # One page names packages, the other keys of its example.
    left_out = ("docs/design.md", "docs/how-to/own-parts.md")
    others = [page for path, page in PAGES.items() if path not in left_out]
    named = {(page.name, key) for page in others for key in pattern.findall(page.text)}

    assert len(named) > 30
    assert sorted((path, key) for path, key in named if key not in known) == []


@pytest.mark.parametrize("script", ["train", "translate", "prepare", "score", "serve"])
def test_help_fits_a_terminal_and_names_keys_and_choices_that_exist(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], script: str
) -> None:
    module = f"seq2seq.cli.{script}"

    run_script(tmp_path, module, ["--help"])

    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 30
    assert max(map(len, lines)) <= 80
    configs = {"train": TrainConfig, "translate": TranslateConfig, "score": ScoreConfig}
    config = (configs | {"prepare": PrepareConfig, "serve": ServeConfig})[script]
    known = keys_of(config) | {"decoding.beam_size", "decoding.n_best", "experiment", "model_size"}
    rows = [re.match(r"  ([a-z_.]+(?:, [a-z]+)*)  ", line) for line in lines]
    named = [key for row in rows if row for key in row[1].split(", ")]
    assert len(named) >= 6  # score has no more
    assert [key for key in named if key not in known] == []
    for group in {"attention", "data", "decoding", "model", "model_size", "tokenizer"} & {*named}:
        types = config_groups().get(group, {}).items()
        choices = {name for name, found in types if "plugin" not in found.__module__}
        choices |= {path.stem for path in (ROOT / "configs" / group).glob("*.yaml")}
        for name in choices:
            assert re.search(rf"[ ,]{name}\b", "\n".join(lines)), name
