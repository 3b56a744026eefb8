"""Pairs are read from what people have, each with the place where it stands."""

import bz2
import gzip
import json
import lzma
import re
import sys
import tracemalloc
import zipfile
from pathlib import Path

import pytest
import zstandard

from seq2seq.config.composition import describe_error
from seq2seq.data.bitexts import read_bitext
from seq2seq.data.memories import Languages

PACK = {
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".xz": lzma.compress,
    ".zst": zstandard.compress,
}

TMX = """<?xml version="1.0"?>
<tmx version="1.4"><header srclang="de"/><body>
<tu><tuv xml:lang="en-US"><seg>The <bpt i="1">&lt;b&gt;</bpt>dog<ph x="1"/> &amp; I</seg></tuv>
<tuv xml:lang="de-DE"><seg>Der Hund</seg></tuv>%s</tu>
<tu><tuv lang="DE"><seg>Nur deutsch</seg></tuv></tu>
</body></tmx>"""
XLIFF = """<?xml version="1.0"?>
<xliff xmlns="urn:oasis:names:tc:xliff:document:1.2"><file source-language="en"
target-language="de"><body>
<trans-unit id="1"><source>Open <g id="1">it</g> %s</source><target>%s <x equiv-text="{0}"/>
</target></trans-unit>
<trans-unit id="2"><source>Hi</source></trans-unit>
<trans-unit id="3"><source>Hi</source><target state="needs-review">Hi</target></trans-unit>
</body></file></xliff>"""
XLIFF_2 = """<xliff srcLang="en" trgLang="de"><file><unit><segment state="initial">
<source>Hi</source><target>Hi</target></segment><segment><source>Yes<x/>no</source>
<target>Ja</target>
</segment></unit></file></xliff>"""
PO = """msgid ""
msgstr "Language: de\\nPlural-Forms: nplurals=2; plural=(n != 1);\\n"

msgid "Open "
"%s"
msgstr "%s oeffnen"

#, fuzzy
msgid "Close"
msgstr "Oeffne"

msgid "%d file"
msgid_plural "%d files"
msgstr[0] "%d Datei"
msgstr[1] "%d Dateien"

msgid "new"
msgstr ""

#~ #, python-format
#~ msgid "old"
#~ msgstr "alt"
"""


def read(tmp_path, files, *, columns=(), source=None, target=None):
    """Write files, by their names, and read them; places are without the directory."""
    for name, content in files.items():
        data = content if isinstance(content, bytes) else content.encode()
        (tmp_path / name).write_bytes(PACK.get(Path(name).suffix, bytes)(data))
    languages = Languages(source, target)
    found = list(read_bitext([tmp_path / name for name in files], languages, columns=columns))
    rows = [(row.place.removeprefix(f"{tmp_path}/"), *row[1:4]) for row in found]
    return languages.source, languages.target, rows


@pytest.mark.parametrize(
    ("files", "options", "languages", "expected"),
    [
        (
            {"a.x": "\ufeffein Hund\r\n\nzwei\n", "b.y.gz": "a dog\nx\ntwo"},
            {},
            (None, None),
            [("a.x:1", "ein Hund", "a dog", None), ("a.x:2", "", "x", None)],
        ),
        (
            {"a.tsv": '"ein\t"a\n1\n\n'},
            {},
            (None, None),
            [
                ("a.tsv:1", '"ein', '"a', None),
                ("a.tsv:2", "1", "", "columns"),
                ("a.tsv:3", "", "", "empty"),
            ],
        ),
        (
            {"a.tsv": b"\x80\tcheese\nK\xc3\xa4se\t\xff\n"},
            {},
            (None, None),
            [
                ("a.tsv:1", "\udc80", "cheese", "encoding"),
                ("a.tsv:2", "K\xe4se", "\udcff", "encoding"),
            ],
        ),
        (
            {"a.csv": 'sep=;\nid;en;de\n1;"a; ""b""";"ein\nHund"\n'},
            {"columns": ["de", "en"]},
            (None, None),
            [("a.csv:2", "de", "en", "header"), ("a.csv:3", "ein\nHund", 'a; "b"', None)],
        ),
        (
            {"a.csv": '"Hund"\t"dog"\n"ein ""a"""\t"b"\n'},
            {},
            (None, None),
            [("a.csv:1", "Hund", "dog", None), ("a.csv:2", 'ein "a"', "b", None)],
        ),
        (
            {"a.csv": '"Ja, ein";"Yes, a"\nzwei;two\n"drei;x";three;\nvier;four;x\n'},
            {},
            (None, None),
            [
                ("a.csv:1", "Ja, ein", "Yes, a", None),
                ("a.csv:2", "zwei", "two", None),
                ("a.csv:3", "drei;x", "three", None),
                ("a.csv:4", "vier\tfour\tx", "", "columns"),
            ],
        ),
        (
            {"deu.txt": "Go.\tGeh.\tCC-BY 2.0\n"},
            {"columns": ["1", "2"]},
            (None, None),
            [("deu.txt:1", "Go.", "Geh.", None)],
        ),
        (
            {"a.csv": ',x\n"a", "b, c"\nd|,e\n'},
            {},
            (None, None),
            [("a.csv:1", "", "x", None), ("a.csv:2", "a", "b, c", None)],
        ),
        (
            {"a.csv": "a|b\nc, d|e\n"},
            {},
            (None, None),
            [("a.csv:1", "a", "b", None), ("a.csv:2", "c, d", "e", None)],
        ),
        (
            {"a.jsonl": '{"source": {"id": 1, "text": "a"}, "target": {"id": 2, "text": "b"}},'},
            {"columns": ["source.text", "target.text"]},
            (None, None),
            [("a.jsonl:1", "a", "b", None)],
        ),
        (
            {"a.xlf": XLIFF, "b.xliff": f"<x>{XLIFF_2}{XLIFF_2.replace('en', 'en-GB')}</x>"},
            {},
            ("en", "de"),
            [],
        ),
        (
            {"a.csv.gz": "1,a,ein\n"},
            {"columns": ["3", "2"]},
            (None, None),
            [("a.csv.gz:1", "ein", "a", None)],
        ),
        (
            {"a.tsv": "en\tid\tde\na\t1\tein\n"},
            {"source": "de", "target": "en"},
            ("de", "en"),
            [("a.tsv:1", "de", "en", "header"), ("a.tsv:2", "ein", "a", None)],
        ),
        (
            {"a.tmx": TMX % ""},
            {},
            ("en", "de"),
            [
                ("a.tmx, entry 1", "The <b>dog  & I", "Der Hund", None),
                ("a.tmx, entry 2", "", "Nur deutsch", None),
            ],
        ),
        (
            {"a.tmx": TMX % '<tuv xml:lang="fr"><seg>Le chien</seg></tuv>'},
            {"source": "de-DE", "target": "fr"},
            ("de-DE", "fr"),
            [
                ("a.tmx, entry 1", "Der Hund", "Le chien", None),
                ("a.tmx, entry 2", "Nur deutsch", "", None),
            ],
        ),
        (
            {"a.tmx": TMX % '<tuv xml:lang="de_AT"><seg>Der Hunt</seg></tuv>'},
            {"source": "de", "target": "en"},
            ("de", "en"),
            [
                ("a.tmx, entry 1", "Der Hund", "The <b>dog  & I", None),
                ("a.tmx, entry 1", "Der Hunt", "The <b>dog  & I", None),
            ],
        ),
        (
            {"a.xlf": XLIFF, "b.xliff": XLIFF_2},
            {},
            ("en", "de"),
            [
                ("a.xlf, entry 1", "Open it %s", "%s {0}\n", None),
                ("a.xlf, entry 2", "Hi", "", "unfinished"),
                ("a.xlf, entry 3", "Hi", "Hi", "unfinished"),
                ("b.xliff, entry 1", "Hi", "Hi", "unfinished"),
                ("b.xliff, entry 2", "Yes no", "Ja", None),
            ],
        ),
        (
            {"a.po": f"\ufeff{PO}"},
            {"source": "en"},
            ("en", "de"),
            [
                ("a.po:4", "Open %s", "%s oeffnen", None),
                ("a.po:9", "Close", "Oeffne", "unfinished"),
                ("a.po:12", "%d file", "%d Datei", None),
                ("a.po:12", "%d files", "%d Dateien", None),
                ("a.po:17", "new", "", "unfinished"),
            ],
        ),
    ],
)
def test_every_pair_is_read_with_its_place(tmp_path, files, options, languages, expected):
    source, target, rows = read(tmp_path, files, **options)

    assert (source, target) == languages
    assert rows[: len(expected)] == expected


VALUES = [("NA", "null"), ("007", "1.50"), ("", "x"), ("nan", "1e5"), ("ein\nHund", "a dog")]
JSON = """{"id": 1, "translation": {"en": "null", "de": "NA"}}
{"id": 2, "translation": {"en": 1.50, "de": "007"}}
{"translation": {"en": "x", "de": null}}
{"en": 1e5, "de": "nan"}
{"de": "ein\\nHund", "en": "a dog", "more": [1]}
"""


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.csv", 'NA,null\n007,1.50\n,x\nnan,1e5\n"ein\nHund",a dog\n'),
        ("a.csv", 'de;en\n"NA";"null"\n007;1.50\n;x\nnan;1e5\n"ein\r\nHund";a dog\n'),
        ("a.csv", 'sep=|\nNA|null\n007|1.50\n|x\nnan|1e5\n"ein\nHund"|"a dog"'),
        ("a.jsonl", JSON),
        (
            "a.jsonl",
            '["NA","null"]\n["007","1.50"]\n["","x"]\n["nan","1e5"]\n["ein\\nHund","a dog"]',
        ),
    ],
    ids=range(5),
)
@pytest.mark.parametrize("ending", ["", *PACK])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_no_value_of_a_table_changes(tmp_path, name, text, ending, encoding):
    rows = read(tmp_path, {name + ending: text.encode(encoding)}, source="de", target="en")[2]

    assert [(source, target) for _, source, target, fault in rows if fault is None] == VALUES


@pytest.mark.parametrize(
    ("name", "text", "expected"),
    [
        ("a.csv", 'a,b\n"c,d\ne,f\n"g",h\n', [("a", "b"), ("e", "f"), ("g", "h")]),
        ("a.csv", 'a,b\n"c "d"",e\nf,g\n', [("a", "b"), ("f", "g")]),
        ("a.csv", 'a,b\n12" c,d\nf,g,h\n', [("a", "b"), ('12" c', "d")]),
        ("a.jsonl", '["a","b"]\n{oops\n7\n["c","d"]\n' + "[" * 100_000, [("a", "b"), ("c", "d")]),
        ("a.tsv", "a\nb\tc\nd\te\tf\n\tg\n", [("b", "c"), ("", "g")]),
    ],
    ids=range(5),
)
def test_damage_costs_its_row_of_a_table(tmp_path, name, text, expected):
    rows = read(tmp_path, {name: text})[2]

    assert [(source, target) for _, source, target, fault in rows if fault is None] == expected


def xlsx(path, cells):
    """Write the least that is a spreadsheet of Excel: cells by their names."""
    main = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
    office = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
    package = "http://schemas.openxmlformats.org/package/2006/relationships"

    def cell(name, value):
        if isinstance(value, str):
            return f'<c r="{name}" t="inlineStr"><is><t>{value}</t></is></c>'
        return f'<c r="{name}"><v>{value}</v></c>'

    rows = "".join(
        f'<row r="{re.sub("[A-Z]", "", name)}">{cell(name, value)}</row>'
        for name, value in cells.items()
    )
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(
            "xl/workbook.xml",
            f'<workbook xmlns="{main}" xmlns:r="{office}"><sheets><sheet name="One" sheetId="1" '
            'r:id="r1"/></sheets></workbook>',
        )
        for name, kind, target in (
            ("_rels/.rels", "officeDocument", "xl/workbook.xml"),
            ("xl/_rels/workbook.xml.rels", "worksheet", "worksheets/sheet1.xml"),
        ):
            archive.writestr(
                name,
                f'<Relationships xmlns="{package}"><Relationship Id="r1" Type="{office}/{kind}" '
                f'Target="{target}"/></Relationships>',
            )
        archive.writestr(
            "xl/worksheets/sheet1.xml",
            f'<worksheet xmlns="{main}"><sheetData>{rows}</sheetData></worksheet>',
        )


def ods(path, rows):
    """Write the least that is a spreadsheet of OpenDocument, with this XML in its table."""
    names = "".join(
        f' xmlns:{name}="urn:oasis:names:tc:opendocument:xmlns:{name}:1.0"'
        for name in ("office", "table", "text")
    )
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        kind = "application/vnd.oasis.opendocument.spreadsheet"
        archive.writestr("mimetype", kind)
        archive.writestr(
            "META-INF/manifest.xml",
            '<m:manifest xmlns:m="urn:oasis:names:tc:opendocument:xmlns:manifest:1.0">'
            f'<m:file-entry m:full-path="/" m:media-type="{kind}"/></m:manifest>',
        )
        archive.writestr(
            "content.xml",
            f"<office:document-content{names}><office:body><office:spreadsheet>"
            f'<table:table table:name="One">{rows}</table:table>'
            "</office:spreadsheet></office:body></office:document-content>",
        )


def ods_row(*cells, repeated=1):
    return (
        f'<table:table-row table:number-rows-repeated="{repeated}">'
        + "".join(
            f'<table:table-cell office:value-type="string" table:number-columns-repeated='
            f'"{1 if repeated == 1 else 16384}"><text:p>{cell}</text:p></table:table-cell>'
            for cell in cells
        )
        + "</table:table-row>"
    )


def test_spreadsheets_are_read(tmp_path):
    cells = {"A1": "NA", "B2": "ja", "C2": "yes", "A3": 7, "B4": "007", "C5": 1.5}
    xlsx(tmp_path / "a.xlsx", cells)
    ods(tmp_path / "b.ods", ods_row("Hund", "dog") + ods_row("NA", "007"))

    found = [
        list(read_bitext([tmp_path / name], Languages(None, None), columns=columns))
        for name, columns in (("a.xlsx", ["2", "3"]), ("b.ods", ()))
    ]

    assert [row[1:4] for row in found[0]][-2:] == [("007", "", None), ("", "1.5", None)]
    assert [row[1:4] for row in found[1]] == [("Hund", "dog", None), ("NA", "007", None)]


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("cell.xlsx", "it needs too much memory"),
        ("rows.ods", "(it needs too much memory|CalamineError: Cell limit exceeded .*)"),
        ("packed.xlsx", "ValueError: it has more than 512 MiB"),
        ("no.xlsx", "BadZipFile: File is not a zip file"),
    ],
)
def test_a_spreadsheet_that_would_fill_the_memory_is_refused(tmp_path, name, reason):
    path = tmp_path / name
    if name == "cell.xlsx":
        xlsx(path, {"A1": "a", "XFD1048576": "b"})
    elif name == "rows.ods":
        ods(path, ods_row("x", repeated=1_048_576))
    elif name == "packed.xlsx":
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("xl/workbook.xml", b"\0" * (520 << 20))
    else:
        path.write_bytes(b"no zip")

    with pytest.raises(
        ValueError, match=f"{name}: the spreadsheet cannot be read: {reason}; save it"
    ):
        list(read_bitext([path], Languages(None, None)))


@pytest.mark.parametrize(
    "name", ["a.tsv.gz", "a.csv.xz", "a.po.bz2", "a.tmx.zst", "a.jsonl.gz", "/dev/zero"]
)
def test_zeros_without_end_are_refused(tmp_path, name):
    path = tmp_path / name
    if not path.exists():
        path.write_bytes(PACK[path.suffix](b"\0" * (70 << 20)))

    with pytest.raises(ValueError, match=f"{name}.*(more than|damaged XML)"):
        list(read_bitext([path], Languages("de", "en")))


@pytest.mark.parametrize("ending", PACK)
def test_a_packed_file_that_is_cut_off_is_refused(tmp_path, ending):
    path = tmp_path / f"a.tsv{ending}"
    path.write_bytes(PACK[ending]("".join(f"{n}\t{n * n}\n" for n in range(9999)).encode())[:-20])

    with pytest.raises(
        ValueError, match=r"a\.tsv.*: (it ends too early|Compressed file ended before)"
    ):
        list(read_bitext([path], Languages("de", "en")))


def test_a_table_with_the_quotes_of_csv_is_named(tmp_path, caplog):
    text = '"Hund, ja"\t"dog"\n"Er sagte ""ja"""\t"He said ""yes"""\n"Ja, er"\tYes\n'

    rows = read(tmp_path, {"a.tsv": text})[2]

    assert rows[1][1] == '"Er sagte ""ja"""'
    assert "a.tsv: 2 lines with quotes as in .csv, the first in line 2; " in caplog.text


@pytest.mark.parametrize(
    ("xml", "text"),
    [
        ('<ph id="0" equiv="INTERPOLATION" disp="{{n}}"/> neu', "{{n}} neu"),
        ('Nummer <g ctype="x-strong" equiv-text="**">eins</g>.', "Nummer eins."),
        ('Haus<ph/>Hund<x id="2" equiv-text="%s"/>', "Haus Hund%s"),
        ('Seite<ph id="1"/>, <x id="COUNT"/>.', "Seite{1}, {COUNT}."),
    ],
)
def test_a_placeholder_of_xliff_becomes_what_it_shows(tmp_path, xml, text):
    unit = f"<trans-unit><source>{xml}</source><target>x</target></trans-unit>"

    assert read(tmp_path, {"a.xlf": f"<xliff>{unit}</xliff>"})[2][0][1] == text


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("a.csv", ["," * 500_000] * 60),
        ("a.jsonl", [json.dumps({f"{n} {key}": "" for key in range(9000)}) for n in range(100)]),
    ],
)
def test_few_rows_of_many_columns_are_in_memory(tmp_path, name, rows):
    (tmp_path / name).write_text("\n".join(rows))
    tracemalloc.start()

    with pytest.raises(ValueError, match=r"no row can be read|choose .* 20 '"):
        list(read_bitext([tmp_path / name], Languages(None, None)))

    assert tracemalloc.get_traced_memory()[1] < 150 << 20
    tracemalloc.stop()


@pytest.mark.parametrize(
    ("files", "options", "message"),
    [
        (
            {"a": "x"},
            {"columns": ["1", "2"]},
            "a: choose the source and the target",
        ),
        ({"a.json": "{}", "b.json": "{}"}, {}, "a.json: a .json file is not plain text"),
        ({"a.de": "x", "b.srt.xz": "y"}, {}, "b.srt.xz: a .srt file is not plain text"),
        ({"a.yaml": "x: y"}, {}, "a.yaml: a .yaml file is not plain text"),
        (dict.fromkeys("abc", "x"), {}, r"a: give a source and a target file by themselves, "),
        ({"a": "x\n", "b": ""}, {}, "b ends before line 1, but .*a goes on;"),
        ({"a": "Hund".encode("utf-16-be"), "b": "x"}, {}, "a: the text is UTF-16"),
        ({"a.tsv": "a\tb", "b": "x"}, {}, "b: give a source and a target file by themselves"),
        (
            {"a.tsv": "x\ty\tz"},
            {},
            r"its columns \(1 'x', 2 'y', 3 'z'\), as",
        ),
        ({"a.tsv": "x\ty"}, {"columns": ["x", "q"]}, "choose the source and the target"),
        ({"a.tsv": "x\ty"}, {"columns": ["0", "1"]}, "choose the source and the target"),
        ({"a.tsv": ""}, {}, "a.tsv: the file is empty"),
        ({"a.tmx": TMX % ""}, {"source": "de", "target": "fr"}, "texts in en, de; choose two"),
        ({"a.tmx": "<tmx>"}, {}, "a.tmx: damaged XML: no element found"),
        ({"a.csv": "Ja, ein;Yes a\n"}, {}, r"a\.csv: two separators give equally"),
        ({"a.csv": "Ja\rein,Yes\n"}, {}, r"a\.csv: no row can be read"),
        (
            {"a.tsv": "Hund\tdog\n".encode("utf-16-le")},
            {},
            "a.tsv: the text is UTF-16LE, .* -f UTF-16LE",
        ),
        (
            {"a.tsv": gzip.compress(b"ja\tyes\n")},
            {},
            r"a\.tsv: the file is compressed; unpack it, or ",
        ),
        (
            {"a": "x\n", "b": "y\n"},
            {"columns": ["1", "2"]},
            "columns chooses columns of a",
        ),
        (
            {"a.xlf": XLIFF},
            {"source": "de", "target": "en"},
            "a.xlf: the texts are in en, not in de",
        ),
        (
            {"a.xlf": XLIFF, "b.xlf": XLIFF_2.replace('"de"', '"fr"')},
            {},
            "b.xlf: the texts are in fr, not in de; correct source and target",
        ),
        (
            {"a.xlf": f"<a>{XLIFF_2}{XLIFF_2.replace('en', 'fr')}</a>"},
            {},
            "a.xlf: it has several pairs of languages",
        ),
    ],
)
def test_what_cannot_be_read_is_refused(tmp_path, files, options, message):
    with pytest.raises(ValueError, match=message):
        read(tmp_path, files, **options)


@pytest.mark.parametrize(
    ("ending", "package"), [(".tsv.zst", "zstandard"), (".xlsx", "python_calamine")]
)
def test_a_missing_package_is_named(tmp_path, monkeypatch, ending, package):
    (tmp_path / f"a{ending}").write_bytes(b"")
    monkeypatch.setitem(sys.modules, package, None)

    with pytest.raises(ValueError, match=package) as caught:
        list(read_bitext([tmp_path / f"a{ending}"], Languages(None, None)))

    assert describe_error(caught.value).endswith(
        f"a{ending}: this needs the package {package}; install it with pip"
    )


@pytest.mark.parametrize("encoding", ["hex", "punycode", "ascii", "undefined", "iso-8859-2", "x"])
def test_a_declared_encoding_is_used_if_it_can_be(tmp_path, encoding):
    codec = "iso-8859-2" if encoding == "iso-8859-2" else "utf-8"
    content = TMX.replace('version="1.0"', f'version="1.0" encoding="{encoding}"') % ""

    rows = read(tmp_path, {"a.tmx": content.replace("Hund", "L\u0151we").encode(codec)})[2]

    assert rows[0][2] == "Der L\u0151we"


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"a\.tmx"):
        list(read_bitext([tmp_path / "a.tmx"], Languages(None, None)))
