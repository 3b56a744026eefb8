import re

from tiny_training import ROOT

PAGE = ROOT / "docs" / "reference" / "bibliography.md"
CITED = re.compile(
    r"([A-Z]\w+)(?:,? (?:et al\.|(?:[A-Z]\w+,? )*(?:and|&) [A-Z]\w+))?,? "
    r"(?:\(|\(\[|\[)?((?:19|20)\d\d)\b"
)
NO_WORKS = {"AER", "EPYC", "January", "November", "Therefore"}


def listed_works() -> set[tuple[str, str]]:
    text = " ".join(PAGE.read_text(encoding="utf-8").split())
    return set(re.findall(r"- (\w+)[^\[*]*? ((?:19|20)\d\d)\b", text))


def cited_works() -> dict[tuple[str, str], str]:
    works = {}
    paths = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "seq2seq").rglob("*.py")]
    for path in paths:
        if path == PAGE:
            continue
        text = re.sub(r"[\s#]+", " ", path.read_text(encoding="utf-8"))
        for name, year in CITED.findall(text):
            works[name, year] = path.name
    return works


def test_every_cited_work_is_listed():
    cited = {work: path for work, path in cited_works().items() if work[0] not in NO_WORKS}

    assert len(cited) > 45
    assert {work: path for work, path in cited.items() if work not in listed_works()} == {}


def test_every_listed_work_is_cited():
    assert listed_works() - set(cited_works()) == set()
