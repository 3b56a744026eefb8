"""The type of a configuration selects its loader."""

import pytest
from tiny_data import BASE

from seq2seq.data.config import DataConfig, FilesConfig, GrammarConfig, Multi30kConfig
from seq2seq.data.corpus import Corpus, Pair, load_corpora
from seq2seq.files.links import parse_links


def test_a_type_without_a_loader_is_refused():
    with pytest.raises(TypeError, match="no corpus is registered for DataConf"):
        load_corpora(BASE)


@pytest.mark.parametrize("config_type", [FilesConfig, GrammarConfig, Multi30kConfig])
def test_importing_the_package_registers_the_loader(config_type):
    assert load_corpora.dispatch(config_type) is not load_corpora.dispatch(DataConfig)


def test_pairs_in_memory_are_a_corpus():
    pairs = [Pair("ja", "yes"), Pair("n\u00f6", "no", parse_links("0-0", where=""))]

    corpus = Corpus.of(iter(pairs), name="train")

    assert list(corpus) == list(corpus.lines()) == pairs
    assert (corpus.name, corpus.num_lines) == ("train", 2)
    assert corpus.fingerprint == Corpus.of(pairs).fingerprint
    assert corpus.fingerprint != Corpus.of(pairs[:1]).fingerprint
