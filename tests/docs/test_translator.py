"""The translator of the documentation's first page: its model, and the page in Chromium."""

import itertools
import os
import re

import pytest
from documents import ROOT, load_script

from seq2seq.config.schema import load_config
from seq2seq.data.corpus import load_corpora
from seq2seq.export.translator import OnnxTranslator

NUM_SENTENCES = int(os.environ.get("PAGE_SENTENCES", "50"))
"""of the bundled test set; it has 500"""


@pytest.fixture(scope="module")
def docs_translator():
    return load_script("translator")


@pytest.fixture(scope="module")
def pairs():
    corpus = load_corpora(load_config().data).test
    return [pair for pair, _ in zip(corpus, range(NUM_SENTENCES), strict=False)]


def test_the_kept_model_is_small_and_knows_the_bundled_language(docs_translator, pairs):
    size = sum(path.stat().st_size for path in docs_translator.KEPT.iterdir())

    found = OnnxTranslator.load(docs_translator.KEPT)([pair.source for pair in pairs])

    assert size < 3_000_000
    same = [each.text == pair.target for each, pair in zip(found, pairs, strict=True)]
    assert sum(same) > 0.8 * len(pairs)


@pytest.mark.parametrize("page", ["how-to/exporting.md", "tutorials/in-the-browser.md"])
def test_examples_are_translated_rightly(docs_translator, page):
    [name] = re.findall(r" examples=\S+/(\w+)\.src", (ROOT / "docs" / page).read_text())
    corpus = getattr(load_corpora(load_config().data), name)
    offered = list(itertools.islice(corpus, 4))

    found = OnnxTranslator.load(docs_translator.KEPT)([pair.source for pair in offered])

    assert [each.text for each in found] == [pair.target for pair in offered]


def test_keeping_an_export_leaves_its_float_weights_out(docs_translator, tmp_path, monkeypatch):
    monkeypatch.setattr(docs_translator, "KEPT", tmp_path / "kept")
    original = ROOT / "docs" / "translator"

    docs_translator.keep(original)

    kept = {path.name: path.read_bytes() for path in (tmp_path / "kept").iterdir()}
    assert kept == {path.name: path.read_bytes() for path in original.iterdir()}
