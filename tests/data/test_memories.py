"""Damage costs its unit, and no input fills the memory."""

from io import StringIO

import pytest

from seq2seq.data.memories import Languages, read_po, read_tmx, read_xliff

GOOD = [(f"Satz {number}", f"sentence {number}") for number in range(40)]


def unit(source, target="y"):
    sides = {"de": source, "en": target}
    texts = (f'<tuv xml:lang="{code}"><seg>{text}</seg></tuv>' for code, text in sides.items())
    return f"<tu>{''.join(texts)}</tu>\n"


def tmx(bad, end="</body></tmx>"):
    sound = [unit(*pair) for pair in GOOD]
    return f"<tmx>\n<body>{''.join(sound[:20])}{bad}{''.join(sound[20:])}{end}"


def kept_and_faults(records):
    found = list(records)
    kept = [record[1:3] for record in found if record[3] is None]
    return kept, [record[3] for record in found if record[3]]


@pytest.mark.parametrize(
    "bad",
    [
        unit("a\x0bb"),
        unit("AT&T"),
        unit("a&nbsp;b"),
        unit("a<b"),
        unit("a&#11;b"),
        '<tu><tuv xml:lang="de"><seg>a</tuv></tu>',
        '<tu><tuv xml:lang="de"><seg>a</seg></tuv>',
        '<tu id=5><tuv xml:lang="de"><seg>a</seg></tuv></tu>',
        '<tu id="5" id="5"></tu>',
        unit("<g>" * 400 + "x" + "</g>" * 400),
        f"<tu>{''.join(unit(str(each))[4:-6] for each in range(3000))}</tu>",
        unit("x " * 700_000),
        unit("<![CDATA[a"),
        unit("<!-- a"),
        unit("<?a"),
        unit("<ph x='a"),
        "<?a ",
        "<!-- a ",
        "<![CDATA[a ",
        "</body></tmx><tmx><body>",
        f"<!-- {unit('a')} --> {unit('&')}",  # a comment hides what it has hidden
        f"<![CDATA[ {unit('a')} ]]> {unit('&')}",
        f"<?a {unit('a')} ?> {unit('&')}",
    ],
    ids=range(23),
)
def test_damage_costs_its_unit_of_a_memory(bad):
    assert kept_and_faults(read_tmx(StringIO(tmx(bad)), Languages(None, None))) == (
        GOOD,
        ["damaged"],
    )


@pytest.mark.parametrize("defined", ["SYSTEM 'a.dtd'", "[<!ENTITY x SYSTEM 'file:///etc/passwd'>]"])
def test_an_entity_that_the_file_does_not_define_is_damage(defined):
    text = f"<!DOCTYPE tmx {defined}>{tmx(unit('a &x; b'))}"

    assert kept_and_faults(read_tmx(StringIO(text), Languages(None, None))) == (GOOD, ["damaged"])


@pytest.mark.parametrize("end", ["", "<tu><tuv xml:lang='de'><se", "<tu>&"])
def test_a_memory_that_is_cut_off_is_read_to_its_end(end):
    records = read_tmx(StringIO(tmx("", end=end)), Languages(None, None))

    assert kept_and_faults(records) == (GOOD, ["damaged"])


def test_lines_are_counted_past_damage():
    bad = unit("&") + "\n\n" + unit("&")

    records = [each for each in read_tmx(StringIO(tmx(bad)), Languages("de", "en")) if each[3]]

    assert [(number, text.split(" in ")[1]) for number, text, *_ in records] == [
        (21, "line 22"),
        (22, "line 25"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "no XML at all",
        "",
        "<tmx>" + "<a>" * 2000,
        "<tmx><!-- " + "x" * 3_000_000,
        "<tmx><a b='" + "x" * 3_000_000,
        "\0" * 3_000_000,
        tmx("&" + "x" * 3_000_000),
    ],
    ids=range(7),
)
def test_a_memory_without_units_for_long_is_refused(text):
    with pytest.raises(ValueError, match=r"^(damaged XML: .* in line|the file has texts in no)"):
        list(read_tmx(StringIO(text), Languages("de", "en")))


def test_two_varieties_are_the_languages_of_a_memory():
    languages, text = Languages(None, None), tmx("").replace('"de"', '"pt-BR"')

    found = kept_and_faults(read_tmx(StringIO(text.replace('"en"', '"pt-PT"')), languages))

    assert found == (GOOD, [])
    assert languages == Languages("pt-br", "pt-pt")


@pytest.mark.parametrize("language", ["fr", "de"])
def test_a_third_language_asks_for_a_choice(language):
    third = unit("x").replace('"en"', '"fr"')
    languages = Languages(language, None)

    with pytest.raises(ValueError, match="texts in de, en, fr; choose two of them"):
        list(read_tmx(StringIO(tmx(third)), languages))


def xliff(body):
    return f'<xliff><file source-language="de" target-language="en">{body}</file></xliff>'


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            '<trans-unit translate="no"><source>a</source><target>b</target></trans-unit>',
            ("a", "b", "locked"),
        ),
        (
            '<group translate="no"><trans-unit><source>a</source><target>b</target></trans-unit>'
            "</group>",
            ("a", "b", "locked"),
        ),
        (
            '<group translate="no"><trans-unit translate="yes"><source>a</source>'
            "<target>b</target></trans-unit></group>",
            ("a", "b", None),
        ),
        (
            '<unit translate="no"><segment><source>a</source><target>b</target></segment></unit>',
            ("a", "b", "locked"),
        ),
        (
            '<segment><source>a <pc dispStart="&lt;b>" dispEnd="&lt;/b>">x</pc></source>'
            "<target>b</target></segment>",
            ("a <b>x</b>", "b", None),
        ),
        (
            "<trans-unit><source>a</source><target>b</target><alt-trans><source>c</source>"
            "<target>d</target></alt-trans></trans-unit>",
            ("a", "b", None),
        ),
        (
            f"<trans-unit><source>{'<x>' * 5000}{'</x>' * 5000}</source></trans-unit>"
            "<trans-unit><source>a</source><target>b</target></trans-unit>",
            ("a", "b", None),
        ),
    ],
    ids=range(7),
)
def test_units_of_xliff_keep_what_is_said_of_them(body, expected):
    languages = Languages(None, None)

    assert [*read_xliff(StringIO(xliff(body)), languages)][-1][1:] == expected
    assert languages == Languages("de", "en")


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [("en-US", "de-AT", ("en", "de")), ("en-US", "en-GB", ("en-US", "en-GB"))],
)
def test_languages_are_without_varieties_unless_these_differ(source, target, expected):
    languages = Languages(None, None)
    text = f'<xliff srcLang="{source}" trgLang="{target}"></xliff>'

    assert [*read_xliff(StringIO(text), languages)] == []
    assert (languages.source, languages.target) == expected


HEADER = 'msgid ""\nmsgstr "Language: en_GB\\nPlural-Forms: nplurals=2; plural=n != 1;\\n"\n'
PLURAL = 'msgid "Hund"\nmsgid_plural "Hunde"\nmsgstr[0] "dog"\n'
PLURALS = [("Hund", "dog"), ("Hunde", "dogs")]


@pytest.mark.parametrize(
    ("bad", "kept", "faults"),
    [
        (f'{PLURAL}msgstr[1] "dogz"\nmsgstr[2] "dogs"\n', PLURALS, []),
        (f'{PLURAL}msgstr[1] ""\n', [("Hund", "dog")], []),
        (PLURAL, [("Hund", "dog")], []),
        (f'#, fuzzy\n\n{PLURAL}msgstr[1] "dogs"\n', [], ["unfinished"] * 2),
        (PLURAL.replace("[0]", "[x]"), [], ["damaged"]),
        ('#| msgid "alt"\n\tmsgid\t"Hund"\nmsgstr"dog"\n', [("Hund", "dog")], []),
        ('msgid "a\\tb \\"c\\" \\\\n \\101"\nmsgstr "\\x41"\n', [('a\tb "c" \\n A', "A")], []),
        ('msgid "Hund"\nmsgstr "dog"\nmsgstr "dogs"\n', [], ["damaged"]),
        ('\ndomain "x"\n\nmsgid "Hund"\nmsgstr "dog"\n', [("Hund", "dog")], ["damaged"]),
        (PLURAL.replace("[0]", "[2000000000]"), [], ["damaged"]),
        ('msgid Hund\nmsgstr "dog"\n', [], ["damaged"]),
        ('msgid "Hund\nmsgstr "dog"\n', [], ["damaged"]),
        ('msgid "Hund\\"\nmsgstr "dog"\n', [], ["damaged"]),
        ('msgid "Hund"\n', [], ["damaged"]),
        ('msgid "Hund"\nmsgstr ""\n' + f'"{"x" * 30}"\n' * 50_000, [], ["damaged"]),
        (
            '<<<<<<< HEAD\nmsgid "a"\nmsgstr "b"\n=======\nmsgid "a"\nmsgstr "c"\n>>>>>>> x\n',
            [("a", "b"), ("a", "c")],
            ["damaged"] * 3,
        ),
        (
            'msgid "a"\n<<<<<<< HEAD\nmsgstr "b"\n=======\nmsgstr "c"\n>>>>>>> x\n',
            [],
            ["damaged"] * 4,
        ),
        ('#~ msgid "alt"\n#~ msgstr "old"\n', [], []),
        ('msgctxt "x"\nmsgid "Hund"\nmsgstr "dog"\n', [("Hund", "dog")], []),
        ('msgid "Satz 1"\nmsgstr "sentence 1"\n', [GOOD[1]], []),
        (HEADER.replace("nplurals=2", "nplurals=2000000000"), [], []),
    ],
    ids=range(21),
)
@pytest.mark.parametrize("between", ["", "\n"])
def test_damage_costs_its_message_of_a_po_file(bad, kept, faults, between):
    sound = [f'msgid "{source}"\nmsgstr "{target}"\n' for source, target in GOOD]
    text = between.join([HEADER, *sound[:20], bad, *sound[20:]])
    languages = Languages(None, None)

    found = kept_and_faults(read_po(text.splitlines(), languages))

    assert found == ([*GOOD[:20], *kept, *GOOD[20:]], faults)
    assert languages == Languages(None, "en")
