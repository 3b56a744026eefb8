from pathlib import Path

from seq2seq.version import __version__


def test_the_citation_names_the_version():
    citation = Path(__file__).parents[1] / "CITATION.cff"

    assert f"\nversion: {__version__}\n" in citation.read_text(encoding="utf-8")
