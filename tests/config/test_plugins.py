import pickle
import subprocess
import sys
from pathlib import Path

import pytest
from tiny_training import ROOT
from tiny_translator import make_checkpoint

from seq2seq.attention import base
from seq2seq.attention.base import attention_config_types, build_attention
from seq2seq.cli.translate_config import load_translate_config
from seq2seq.config import plugin_modules
from seq2seq.config.plugins import load_plugins, load_plugins_of
from seq2seq.config.schema import load_config
from seq2seq.data.corpus import Pair
from seq2seq.data.tokenizers.ruled import (
    plain_tokenizer,
    tokenizers_from_state,
    tokenizers_state,
    train_tokenizers,
)
from seq2seq.inference.checkpoint import load_checkpoint, save_checkpoint
from seq2seq.search.searches import decoding_config_types

ATTENTION = """
from dataclasses import dataclass

from seq2seq.attention.base import register_attention
from seq2seq.attention.dot import DotAttention, DotConfig


@dataclass(kw_only=True, slots=True)
class PluggedConfig(DotConfig):
    name: str = "{name}"
    factor: float = 2.0


@register_attention(PluggedConfig)
class PluggedAttention(DotAttention):
    def score(self, query, keys):
        return 2 * DotAttention.score(self, query, keys)
"""
SEARCH = """
from dataclasses import dataclass

from seq2seq import GreedyConfig, register_search
from seq2seq.search.loop import beam_search


@dataclass(kw_only=True, slots=True)
class PluggedSearchConfig(GreedyConfig):
    name: str = "plugged_search"


register_search(PluggedSearchConfig)(beam_search)
"""
TOKENIZER = """
from dataclasses import dataclass

from seq2seq import TokenizerConfig, TokenizerPair, register_tokenizer
from seq2seq.data.tokenizers.words import CharacterTokenizer


@dataclass(kw_only=True, slots=True, repr=False)
class VowelsConfig(TokenizerConfig):
    name: str = "vowels"
    vocabulary_size: int = 9


@register_tokenizer(VowelsConfig)
class VowelTokenizer(CharacterTokenizer):
    kind = "vowels"

    @classmethod
    def train(cls, config, corpus, symbols):
        return TokenizerPair(cls("aeiou"), cls("aeiou"))
"""


@pytest.fixture(autouse=True)
def place(tmp_path, monkeypatch, forgets_plugins):
    """Work in an empty directory."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SEQ2SEQ_PLUGIN_PATH", "")
    return tmp_path


def write(name: str, text: str) -> str:
    path = Path("my") / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return str(path)


def test_file_registers_its_attention_which_is_chosen_without_yaml():
    plugin = write("plug.py", ATTENTION.format(name="plugged"))

    config = load_config(f"plugins=[{plugin}]", "attention=plugged", "attention.factor=3")

    assert config.attention.name == "plugged"
    assert config.attention.factor == 3
    assert config.plugins == [plugin]
    built = build_attention(config.attention, query_size=4, key_size=4, value_size=4)
    assert type(built).__name__ == "PluggedAttention"


def test_file_registers_a_search():
    plugin = write("plug_search.py", SEARCH)

    config = load_translate_config("checkpoint=x", f"plugins={plugin}", "decoding=plugged_search")

    assert type(config.decoding) is decoding_config_types()["plugged_search"]
    assert load_config(f"plugins=[{plugin}]", "decoding=plugged_search").decoding == config.decoding


def test_file_registers_a_tokenizer_which_is_trained_and_restored():
    plugin = write("plug_tokenizer.py", TOKENIZER)
    config = load_config(f"plugins=[{plugin}]", "tokenizer=vowels")

    trained = train_tokenizers(config.tokenizer, [Pair("ja", "yes")])
    restored = tokenizers_from_state(tokenizers_state(trained))

    assert type(plain_tokenizer(restored.target)).__name__ == "VowelTokenizer"
    assert restored.target.encode(["eu"]) == trained.target.encode(["eu"]) == [[5, 8]]


def test_file_imports_its_neighbour():
    write("neighbour.py", "NAME = 'by_neighbour'\n")
    text = "from .neighbour import NAME\n" + ATTENTION.format(name="x").replace('"x"', "NAME")

    load_plugins([write("plug.py", text)])

    assert "by_neighbour" in attention_config_types()


def test_file_hides_no_module_and_a_process_started_later_reads_its_pickles(place):
    write("json.py", "raise AssertionError\n")
    load_plugins([write("plug.py", "class Part: ...\n")])
    path = place / "part.pickle"
    path.write_bytes(pickle.dumps(sys.modules[f"{plugin_modules.__name__}.plug"].Part))
    code = f"import pickle, json; print(pickle.load(open({str(path)!r}, 'rb')).__name__)"

    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False
    )

    assert done.stdout == "Part\n", done.stderr
    assert str(place / "my") not in sys.path


def test_second_load_changes_nothing():
    plugin = write("plug.py", ATTENTION.format(name="plugged"))
    load_plugins([plugin])
    before = attention_config_types()["plugged"]

    load_plugins([plugin, str(Path(plugin).resolve())])

    assert attention_config_types()["plugged"] is before


def test_last_of_several_overrides_is_loaded_as_hydra_takes_it():
    plugins = [write(f"plug_{name}.py", ATTENTION.format(name=name)) for name in ("one", "two")]

    load_plugins_of([f"plugins=[{plugins[0]}]", "seed=2", f"plugins=[{plugins[1]}]"])

    assert "two" in attention_config_types()
    assert "one" not in attention_config_types()


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("bad.py", "x = 1\ndef (:\n", r": SyntaxError: invalid syntax \(bad\.py, line 2\)"),
        ("boom.py", "x = 1\ny = 1 / 0\n", r", line 2: ZeroDivisionError: division by zero"),
        ("ends.py", "import sys\nsys.exit(0)\n", r", line 2: SystemExit: 0"),
        ("lacks.py", "import no_such_thing\n", r", line 1: ModuleNotFoundError: No module named"),
        (
            "taken.py",
            ATTENTION.format(name="additive"),
            r", line 14: ValueError: attention 'additive' or its config PluggedConfig is taken",
        ),
        ("text.txt", "x\n", ": ModuleNotFoundError"),
    ],
)
def test_plugin_that_cannot_be_loaded_is_refused_with_its_line(name, text, message):
    plugin = write(name, text)
    before = attention_config_types()

    with pytest.raises(ValueError, match=f"^plugins=my/{name}{message}"):
        load_plugins([plugin])

    assert attention_config_types() == before


def test_plugin_can_be_loaded_after_its_error_was_corrected():
    plugin = write("plug.py", ATTENTION.format(name="plugged") + "1 / 0\n")
    with pytest.raises(ValueError, match=r", line 18: ZeroDivisionError"):
        load_plugins([plugin])

    write("plug.py", ATTENTION.format(name="plugged"))
    load_plugins([plugin])

    config = load_config("attention=plugged").attention
    assert build_attention(config, query_size=4, key_size=4, value_size=4).num_heads == 1


def test_path_of_no_file_is_refused():
    write("a.py", "")

    with pytest.raises(FileNotFoundError, match=r"my/cosin\.py"):
        load_plugins(["my/cosin.py"])


def test_files_of_one_name_are_refused(tmp_path):
    load_plugins([write("plug.py", "")])
    (tmp_path / "plug.py").write_text("")

    with pytest.raises(ValueError, match=r"^plugins=plug\.py has the same name as /.*my/pl"):
        load_plugins(["plug.py"])


def test_reading_a_configuration_with_plugins_loads_none(tmp_path):
    plugin = write("plug.py", ATTENTION.format(name="plugged"))
    config = load_config(f"plugins=[{plugin}]", "attention=plugged", "tokenizer=characters")
    checkpoint = make_checkpoint("dot")
    checkpoint.config.attention = config.attention
    checkpoint.config.plugins = [plugin]
    save_checkpoint(tmp_path / "best.pt", checkpoint)
    assert load_checkpoint(tmp_path).config.attention.name == "plugged"
    del base.ATTENTION._parts["plugged"]

    message = (
        r"unknown attention 'plugged'; its run used plug-ins: add plugins=\[my/plug\.py\], or in "
        r"Python call seq2seq\.load_plugins"
    )
    with pytest.raises(ValueError, match=message):
        load_checkpoint(tmp_path)

    assert "plugged" not in attention_config_types()
