import re

from tiny_training import ROOT

import seq2seq
from seq2seq.version import __version__


def test_the_package_and_its_citation_have_the_same_version():
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")

    assert seq2seq.__version__ == __version__
    assert re.search(r"^version: (.*)$", citation, re.MULTILINE)[1] == __version__
