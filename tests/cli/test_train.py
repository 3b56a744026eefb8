"""train.py answers a mistake with one line and leaves no trace; a stopped run says how to go on."""

import json
import os
import shlex
import signal
from functools import partial

import pytest
from same_run import act_in
from tiny_training import ROOT
from worker_processes import start_python

from seq2seq.cli import score, translate
from seq2seq.cli.command_line import load_command
from seq2seq.cli.export import ExportConfig
from seq2seq.cli.serve import load_model
from seq2seq.cli.train import hydra_arguments
from seq2seq.data.tokenizers.sentencepiece import has_subwords
from seq2seq.inference.checkpoint import load_checkpoint
from seq2seq.serving.models import ServeConfig
from seq2seq.training.trainer import Trainer


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["model.encoder.hiden_size=3"], "unknown key 'model.encoder.hiden_size'; did you mean "),
        (["resume=true"], "resume=true: checkpoints/grammar-additive has no run; remove resume"),
        (
            ["data=files", "data.train=[a.de,a.en]", "data.valid=[b.tsv]", "data.test=[c.tsv]"],
            "a.de: no such file or directory",
        ),
    ],
)
def test_a_mistake_is_one_line_and_leaves_no_trace(train_refusal, work, arguments, line):
    assert train_refusal(*arguments).startswith(line)
    assert list(work.iterdir()) == []


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("a=1 --multirun b=2", "--multirun a=1 b=2"),
        ("b=1 a=2 --cfg job c=job", "--cfg job b=1 a=2 c=job"),
        ("text=-m --config-dir=my", "--config-dir=my text=-m"),
    ],
)
def test_options_may_stand_anywhere(arguments, expected):
    assert hydra_arguments(arguments.split()) == expected.split()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--checkpoint", "best.pt", "text=a"], "unknown option --checkpoint; write keys as key="),
        (["seed=1", "--run-name=a b"], "unknown option --run-name=a b; write keys as key="),
        (["text=a", "-x"], "unknown option -x; write keys as key="),
        (["--cfg", "everything"], "argument --cfg/-c: invalid choice: 'everything'"),
    ],
)
def test_an_unknown_option_is_one_line(arguments, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        hydra_arguments(arguments)


def test_a_name_that_reads_as_a_number_stays_as_it_is(train, corpus, work):
    train(*corpus, "training.max_updates=1", "run_name=2026_11_27", "checkpoint_dir=1e3")

    assert (work / "1e3" / "2026_11_27" / "results.json").exists()


def test_runs_may_be_in_the_home_directory(train, corpus, work, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path / "home"))

    code, _, err = train(
        *corpus,
        "training.max_updates=1",
        "checkpoint_dir='~/runs'",
        "data.cache_dir='~/cache'",
        "run_name=mine",
    )

    assert code == 0, err
    assert (tmp_path / "home" / "runs" / "mine" / "results.json").exists()
    assert list((tmp_path / "home" / "cache").glob("tokenizers-*.pt"))
    assert not (work / "~").exists()


def test_a_directory_that_holds_a_run_is_refused_unless_told_what_to_do(
    train, train_refusal, corpus, work
):
    arguments = [*corpus, "training.max_updates=1", "run_name=mine"]
    run = work / "checkpoints" / "mine"

    first = train(*arguments)
    before = {path: path.stat().st_mtime_ns for path in run.rglob("*")}
    line = train_refusal(*arguments)

    assert first[:2] == (0, "")
    assert f" {ROOT}/translate.py checkpoint=checkpoints/mine\n" in first[2]
    assert " -m tensorboard.main --logdir checkpoints\n" in first[2]
    assert [path.name for path in work.iterdir()] == ["checkpoints"]
    assert line.startswith("checkpoints/mine has a run already; continue it with resume")
    assert {path: path.stat().st_mtime_ns for path in run.rglob("*")} == before
    line = train_refusal(*arguments, "resume=true", "seed=9")
    assert "another configuration: seed (1 -> 9)" in line
    assert train(*arguments, "overwrite=true")[0] == 0


PLUGIN = """
from dataclasses import dataclass
from seq2seq.attention.additive import AdditiveAttention, AdditiveConfig
from seq2seq import register_attention
@dataclass(kw_only=True)
class OwnConfig(AdditiveConfig):
    name: str = "own"
@register_attention(OwnConfig)
class OwnAttention(AdditiveAttention):
    pass
"""


@pytest.mark.parametrize(
    ("keys", "name", "has_export"),
    [
        (["tokenizer=words", "tokenizer.vocabulary_size=90"], "mine", False),
        (["tokenizer=characters"], "a b'c", False),
        (["tokenizer=bpe", "tokenizer.vocabulary_size=18", "tokenizer.joint=false"], "a,b", True),
        (["tokenizer=characters", "plugins=[own_part.py]", "attention=own"], "a[1]", False),
    ],
)
@pytest.mark.usefixtures("forgets_plugins")
def test_every_printed_command_takes_the_run(train, run, corpus, work, keys, name, has_export):
    (work / "own_part.py").write_text(PLUGIN)
    code, _, err = train(*corpus, *keys, "training.max_updates=1", f'run_name="{name}"')
    printed = [shlex.split(line) for line in err.partition("Next:\n")[2].splitlines()]

    assert code == 0, err
    commands = {command: arguments for command, *arguments in printed}
    assert list(commands) == [
        *("translate", "look", "score", *(["export"] if has_export else []), "serve")
    ]
    assert run(translate.main, *commands["translate"][2:], "text=abc")[0] == 0
    assert run(score.main, *commands["score"][3:])[0] == 0
    if has_export:
        config = load_command("export", ExportConfig, commands["export"][3:])
        assert has_subwords(load_checkpoint(config.checkpoint).tokenizers)
    config = load_command("serve", ServeConfig, commands["serve"][3:])
    for path in config.checkpoint:
        load_model(path, config)
    for command in {"translate", "export", "serve"} & commands.keys():
        assert ("plugins=[own_part.py]" in commands[command]) == ("attention=own" in keys)


def test_a_run_is_repeated_from_its_configuration(train, train_refusal, corpus, work):
    checkpoints = work / "checkpoints"
    first = train(*corpus, "training.max_updates=2", "run_name=first")
    again = ["--config-path=checkpoints/first", "--config-name", "config"]

    code, _, err = train(*again, "run_name=again")

    assert (first[0], code) == (0, 0), err
    for name in ("test.hyp", "valid.hyp"):
        texts = ((checkpoints / run / name).read_bytes() for run in ("first", "again"))
        assert len(set(texts)) == 1
    assert [path.name for path in work.iterdir()] == ["checkpoints"]
    line = train_refusal(*again, "run_name=b", "training.max_updates=-1")
    assert line.endswith(": training.max_updates=-1 must be at least 1, or null")
    line = train_refusal(*again, "run_name=b", "attention=dot")
    assert line.startswith("Could not override 'attention'")
    line = train_refusal("-m", *again, "seed=1,2", "hydra.sweep.dir=swept")
    assert line.startswith("-m needs the section hydra of configs/train.yaml")


@pytest.mark.parametrize("text", ["a: 1", "run_name: a\ndata: {name: files}", "{}"])
def test_a_file_without_the_schema_is_one_line(train_refusal, work, tmp_path, text):
    (tmp_path / "mine.yaml").write_text(text)

    line = train_refusal("--config-path", str(tmp_path), "--config-name", "mine")

    assert line.startswith("the file of --config-name has no schema; begin its defaults list")
    assert list(work.iterdir()) == []


def test_a_stopped_run_saves_and_names_the_command_that_continues_it(train, corpus, work):
    arguments = [*corpus, "training.max_epochs=100000", "run_name=mine"]
    process = start_python([ROOT / "train.py", *arguments], cwd=work)
    assert process.stderr is not None
    for line in process.stderr:
        if line.startswith("update "):
            break
    process.send_signal(signal.SIGTERM)
    out, err = process.communicate()

    assert process.returncode == 143, err
    assert out == ""
    # Some versions of torch add lines of their own when the interpreter ends.
    last = next(line for line in err.splitlines() if line.startswith("stopped by "))
    assert last == "stopped by SIGTERM; to continue, repeat the command with resume=true"
    assert (work / "checkpoints" / "mine" / "last.pt").exists()
    code, out, err = train(*arguments, "resume=true", "training.max_updates=3")
    assert (code, out) == (0, "")
    assert "resumed after update" in err


def test_an_interrupt_while_data_are_read_is_one_line(train, corpus, monkeypatch):
    def interrupt(*arguments: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("seq2seq.training.preparation.prepare_data", interrupt)

    assert train(*corpus) == (130, "", "stopped by Ctrl-C\n")


SHORT = ("training.max_updates=2", "hydra.sweep.dir=swept")
SWEEP = ("attention=none,dot,general", *SHORT)


def test_a_sweep_goes_on_after_a_failure_and_compares_the_runs(train, corpus, work):
    # attention.size is additive's alone; dot does not fit these sizes.
    arguments = [each for each in corpus if not each.startswith("attention.")]
    path = work / "swept"

    code, out, err = train("-m", *arguments, *SWEEP)

    assert (code, out) == (1, "")
    table = err[err.index("attention   ") :].splitlines()
    assert {table[1].split()[0], table[2].split()[0]} == {"none", "general"}
    assert any(line.startswith("warning: 1-files-dot failed: ") for line in table[3:])
    assert "Traceback" not in err
    finished = {each.name: (each / "results.json").exists() for each in path.iterdir()}
    names = ("0-files-none", "1-files-dot", "2-files-general")
    assert [finished[name] for name in names] == [True, False, True]
    assert {each.name for each in path.iterdir() if each.is_dir()} == {*names}
    assert len((path / "leaderboard.csv").read_text().splitlines()) == 4
    # What failed can be put right in the same place, beside what is there.
    code, out, err = train(
        "-m", *arguments, *SWEEP, "model.decoder.hidden_size=10", "overwrite=true"
    )
    assert (code, out) == (0, "")
    assert "failed" not in err
    assert len((path / "leaderboard.csv").read_text().splitlines()) == 4


def test_a_sweeper_gets_the_validation_score(train, corpus, monkeypatch):
    returned = []
    monkeypatch.setattr(
        "seq2seq.cli.train.run_job", lambda path, job: returned.append((path, job()))
    )

    train(
        "-m",
        *corpus,
        "training.validation.metric=chrf",
        "training.max_updates=20",
        "checkpoint_dir=mine",
    )

    [(path, value)] = returned
    assert path.parent.match("mine/sweep-*")
    valid = json.loads((path / "results.json").read_text())["valid"]
    assert value == valid["chrf"] >= 0.005


def test_an_unknown_choice_in_a_sweep_is_one_line_before_any_run(train_refusal):
    assert "dott" in train_refusal("seed=1", "-m", "attention=none,dott", "hydra.sweep.dir=swept")


def test_a_signal_stops_a_sweep_and_names_the_command_that_continues_it(train, corpus, monkeypatch):
    arguments = [each for each in corpus if not each.startswith("attention.")]
    swept = ("attention=none,uniform", "hydra.sweep.dir='swept, two'")
    with monkeypatch.context() as patch:
        interrupt = partial(os.kill, os.getpid(), signal.SIGINT)
        act_in(patch, Trainer, "_update", call=3, action=interrupt)
        code, out, err = train("-m", *arguments, *swept)

    assert (code, out) == (130, "")
    last = err.splitlines()[-1]
    again = "to continue, repeat the command with hydra.sweep.dir=swept, two resume=auto"
    assert last == f"stopped by Ctrl-C; {again}"
    assert "1-files-uniform" not in err
    code, out, err = train("-m", *arguments, *swept, "resume=auto")
    assert (code, out) == (0, "")
    assert "resumed after update 3" in err
    assert "1-files-uniform" in err
    assert "swept, two/report.html" in err
