"""`seq2seq-prepare` makes a corpus that does not leak, and accounts for every pair."""

import os
import random
import re
import shlex

import pytest

from seq2seq.cli.command_line import load_command
from seq2seq.cli.prepare import Judgement, PrepareConfig, prepare, split
from seq2seq.config.schema import load_config
from seq2seq.data.quality import hash_text, text_key

NAMES = ["Anna", "Ben", "Clara", "Dora", "Emil", "Frieda", "Georg", "Hanna", "Ida", "Jakob"]
VERBS = [("sieht", "sees"), ("kennt", "knows"), ("sucht", "looks for"), ("mag", "likes")]
PAIRS = [
    (f"{name} {german} heute den Hund von {other}.", f"{name} {english} the dog of {other} today.")
    for name in NAMES
    for other in NAMES
    for german, english in VERBS
]
FAULTY = [
    ("de", "en"),
    ("", "Nothing."),
    (PAIRS[0][0].upper(), PAIRS[0][1]),
    PAIRS[1][::-1],
    (PAIRS[2][0], PAIRS[2][0]),
    ('"Anna" hat heute 3 Hunde.', '"Anna" has 4 dogs today.'),
]


@pytest.fixture
def table(tmp_path):
    rows = [
        *FAULTY[:1],
        *PAIRS,
        *FAULTY[1:],
        ("&quot;Nein&quot;, sagte <b>Ida</b>.", '"No," she said.'),
    ]
    path = tmp_path / "all.tsv"
    path.write_text("".join(f"{source}\t{target}\n" for source, target in rows))
    return path


def run(tmp_path, table, *keys):
    arguments = [f"input={table}", f"output={tmp_path / 'out'}", "source=de", "target=en", *keys]
    prepare(load_command("prepare", PrepareConfig, arguments))
    return tmp_path / "out"


def pairs_of(folder, name):
    sides = [(folder / f"{name}.{end}").read_text().splitlines() for end in ("de", "en")]
    return list(zip(*sides, strict=True))


def test_every_pair_is_in_one_set_or_among_the_dropped(tmp_path, table, capsys):
    folder = run(tmp_path, table, "valid=20", "test=30")

    sets = {name: pairs_of(folder, name) for name in ("train", "valid", "test")}
    assert [len(sets[name]) for name in ("valid", "test")] == [20, 30]
    kept = [pair for pairs in sets.values() for pair in pairs]
    assert sorted(kept) == sorted([*PAIRS, ('"Nein", sagte Ida.', '"No," she said.')])
    lines = (folder / "dropped.tsv").read_text(encoding="utf-8").splitlines()
    dropped = [tuple(line.split("\t")) for line in lines]
    assert [(source, target) for _, _, source, target in dropped] == FAULTY
    names = ["header", "empty", "duplicate", "swapped", "equal", "numbers"]
    assert [fault for _, fault, _, _ in dropped] == names
    assert dropped[1][0] == f"{table}:{len(PAIRS) + 2}"
    printed = capsys.readouterr().out
    assert re.findall("cleaned        1  (.*)\n", printed) == ["HTML tags", "HTML entities"]
    assert f"dropped        1  an empty side\n{'':18}all.tsv:402:  | Nothing.\n" in printed
    assert "Next: python train.py experiment=best data=files 'data.train=[" in printed
    assert printed.endswith(f" run_name={folder.name} training.max_minutes=30\n")


def judged(pairs):
    judgement = Judgement(len(pairs))
    for index, pair in enumerate(pairs):
        judgement.hashes[:2, index] = [hash_text(side) for side in pair]
    return judgement


def sets_of(pairs, **sizes):
    chosen = split(judged(pairs), **sizes)
    return [[pair for pair, own in zip(pairs, chosen, strict=True) if own == at] for at in range(3)]


def test_held_out_pairs_share_no_side_with_others_and_hardly_move():
    chosen = random.Random(1).sample(PAIRS, 300)
    repeated = [(chosen[0][0].lower(), "Another translation."), ("Noch ein Satz.", chosen[1][1])]
    kept = chosen + repeated

    sets = sets_of(kept, valid=40, test=None)

    assert [len(pairs) for pairs in sets] == [247, 40, 15]
    for at in (1, 2):
        for side in (0, 1):
            own = {text_key(pair[side]) for pair in sets[at]}
            others = [pair for other in range(3) if other != at for pair in sets[other]]
            assert own.isdisjoint(text_key(pair[side]) for pair in others)
    assert len({*sets[1]} & {*sets_of(kept[10:], valid=40, test=None)[1]}) > 30
    assert sets_of(kept, valid=0, test=0)[1] == []


def test_kept_kinds_and_markup_stay(tmp_path, table):
    folder = run(tmp_path, table, "keep=[duplicate,numbers]", "markup=keep", "valid=0", "test=0")

    pairs = pairs_of(folder, "train")
    assert {FAULTY[2], FAULTY[5], ("&quot;Nein&quot;, sagte <b>Ida</b>.", '"No," she said.')} <= {
        *pairs
    }
    assert FAULTY[3] not in pairs


def test_languages_are_recognized_and_a_check_writes_nothing(tmp_path, table, capsys):
    prepare(load_command("prepare", PrepareConfig, [f"input={table}", "check=true"]))

    assert "407 pairs, de to en (source= and target= set these)" in capsys.readouterr().out
    assert [*tmp_path.iterdir()] == [table]


def test_names_of_tables_do_not_tell_the_languages(tmp_path, table, capsys):
    (tmp_path / "b.fr.tsv").write_text(table.read_text())
    (tmp_path / "a.de.tsv").write_text(table.read_text())
    files = f"input=[{tmp_path}/a.de.tsv,{tmp_path}/b.fr.tsv]"

    prepare(load_command("prepare", PrepareConfig, [files, "check=true"]))

    assert "814 pairs, de to en (" in capsys.readouterr().out


def test_short_texts_have_no_language_of_their_own(tmp_path, capsys):
    table = tmp_path / "all.tsv"
    table.write_text("Ja.\tYes.\n")

    prepare(load_command("prepare", PrepareConfig, [f"input={table}", f"output={tmp_path}/out"]))

    assert "1 pair, source to target (" in capsys.readouterr().out
    assert (tmp_path / "out" / "train.source").read_text() == "Ja.\n"


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (["output=null"], "output needs a value; give output=DIRECTORY, or check=true"),
        (["keep=[empty]"], "keep=\\[.empty.\\] must be one of: header, long,"),
        (
            ["valid=399", "test=3"],
            "401 pairs left, 401 with a source .*: too few for valid=399 and test=3",
        ),
        (["columns=[de,fr]"], "choose the source and the target"),
        (["source=../de"], r"'\.\./de' cannot be a language, which ends the names of files"),
        (["source=-rf"], "'-rf' cannot be a language"),
    ],
)
def test_what_cannot_be_done_is_refused_and_nothing_is_written(tmp_path, table, keys, message):
    with pytest.raises(ValueError, match=message):
        run(tmp_path, table, *keys)

    assert [*tmp_path.iterdir()] == [table]


@pytest.mark.parametrize(
    ("text", "message", "fault"),
    [
        (b"\ta\n\n", "0 pairs left, 0 with a source .* look at the faults above", "an empty side"),
        (b"\xe4\ta\nb\tc\n", "50% of the rows are not UTF-8; convert", "bytes that are not UTF-8"),
    ],
)
def test_a_text_without_sound_pairs_is_refused_after_its_report(
    tmp_path, capsys, text, message, fault
):
    table = tmp_path / "all.tsv"
    table.write_bytes(text)

    with pytest.raises(ValueError, match=message):
        prepare(load_command("prepare", PrepareConfig, [f"input={table}", "check=true"]))

    assert fault in capsys.readouterr().out


def test_a_directory_with_content_is_refused_and_an_empty_one_is_used(tmp_path, table):
    folder = tmp_path / "out"
    folder.mkdir()
    run(tmp_path, table)
    before = {path.name: path.read_bytes() for path in folder.iterdir()}

    with pytest.raises(FileExistsError, match=r"^output=.*out exists; choose another one$"):
        run(tmp_path, table)

    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before
    assert len(before) == 7


GOOD = [f"{source}\t{target}" for source, target in PAIRS]


def dropped_of(folder):
    lines = (folder / "dropped.tsv").read_text("utf-8", "surrogateescape").splitlines()
    return [tuple(line.split("\t")[1:]) for line in lines]


@pytest.mark.parametrize(
    ("bad", "faults"),
    [
        (["x y " * 500_000 + "\tb"], ["damaged"]),  # over the limit of a line
        (["b\t" + "x y " * 500_000], ["damaged"]),
        (["x y " * 100_000 + "\tb"], ["long"]),
        (["\u0434\u0430 " * 30_000 + "\t" + "yes " * 30_000] * 10, ["long"] * 10),
        (["a\tb\tc\td"], ["columns"]),
        (["Export vom 3.5.", ""], ["columns", "empty"]),
        (["Export\t", "Deutscher Text\tEnglisch"], ["empty", "header"]),
        ([PAIRS[0][1] + "\t" + PAIRS[0][0]], ["swapped"]),
        (["\0\0\0\t\0\0"], ["empty"]),
        (["Ein \ufffd Hund.\tA dog."], ["encoding"]),
        (["Ein &#" + "9" * 4301 + "; Hund.\t" + "A dog. " * 600], ["long"]),
    ],
)
def test_no_sound_pair_is_dropped_because_of_a_bad_one(tmp_path, bad, faults):
    (tmp_path / "all.tsv").write_text("".join(f"{line}\n" for line in (*bad, *GOOD)))

    folder = run(tmp_path, tmp_path / "all.tsv", "valid=0", "test=0")

    assert pairs_of(folder, "train") == PAIRS
    assert [fault for fault, *_ in dropped_of(folder)] == faults


NEAR = [
    ("SEHT DEN HUND AN!", "LOOK AT THE DOG!"),
    ("Seht den Hund an.", "Look at the dog."),
    ("_L\u00f6schen", "_Delete"),
    ("L\u00f6schen", "Delete"),
    ("Su_chen:", "Sear_ch:"),
    ("Suchen", "Search"),
    ("suchen", "search"),
    ("&Umbenennen\u2026", "&Rename\u2026"),
    ("Umbenennen", "Rename"),
    ("Ja!", "Yes!"),
    ("Ja.", "Yes."),
    ("Umbenennen", "Rename"),
    ("- Neu", "\u2022 New"),
    ("N e u", "N e w"),
    ("Neu!!", "New!!"),
    ("Neu", "New"),
    ("~Datei", "^File"),
    ("Datei", "File"),
    ("Dat`ei", "Fi`le"),
]


@pytest.mark.parametrize(
    ("markup", "expected"),
    [
        ("remove", [1, 3, 5, 8, 9, 15, 17]),
        ("keep", [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 12, 13, 14, 15, 16, 17, 18]),
    ],
)
def test_the_ordinary_one_of_near_duplicates_stays(tmp_path, markup, expected):
    table = tmp_path / "all.tsv"
    table.write_text("".join(f"{source}\t{target}\n" for source, target in (*PAIRS, *NEAR)))

    folder = run(tmp_path, table, "valid=0", "test=0", f"markup={markup}")

    assert pairs_of(folder, "train")[len(PAIRS) :] == [NEAR[index] for index in expected]


@pytest.mark.parametrize(
    ("first", "is_header"),
    [
        ("German\tEnglish", True),
        ("de_DE\ten_US", True),
        ("Original\t\u00dcbersetzung", True),
        ("deu\teng", True),
        ("de_text\ten_text", True),
        ("Source text\tTarget text", True),
        ("Text (de)\tText (en)", True),
        ("\u539f\u6587\t\u8bd1\u6587", True),
        ("\u0939\u093f\u0928\u094d\u0926\u0940\ttranslation.en", True),
        ("Source:\t[en]", True),
        ("Ja.\tYes.", False),
        ("Anna sieht Ben.\tAnna sees Ben.", False),
        ("Tom\tTom", False),
        ('\u201eJa\u201c\t"Yes"', False),
        ('Sag \u201eAh!\u201c\tSay "aah."', False),
    ],
)
def test_a_first_row_of_names_is_no_pair(tmp_path, first, is_header):
    (tmp_path / "all.tsv").write_text("".join(f"{line}\n" for line in (first, *GOOD)))

    folder = run(tmp_path, tmp_path / "all.tsv", "valid=0", "test=0")

    assert ([fault for fault, *_ in dropped_of(folder)] == ["header"]) is is_header


def test_a_first_row_like_all_others_is_a_pair_and_named(tmp_path, caplog):
    table = tmp_path / "all.tsv"
    table.write_text("".join(f"Wort{name}\tword{name}\n" for name in NAMES))

    folder = run(tmp_path, table, "valid=0", "test=0")

    assert pairs_of(folder, "train")[0] == ("WortAnna", "wordAnna")
    assert "if they name the columns, give columns=[WortAnna,wordAnna]" in caplog.text


def test_control_characters_of_the_text_do_not_reach_the_terminal(tmp_path, capsys):
    (tmp_path / "all.tsv").write_text("\x1b]0;x\x07\u202ea\t\n" + "\n".join(GOOD))

    run(tmp_path, tmp_path / "all.tsv")

    assert r"all.tsv:1: \x1b]0;x\x07\u202ea | " in (printed := capsys.readouterr().out)
    assert "\x1b" not in printed


@pytest.mark.parametrize(
    "form",
    ["Ist sie {name} , heute?", "Di@@ es ist {name}", "\u2581Da \u2581ist {name}", "{name} \u3002"],
)
def test_text_that_is_split_into_tokens_is_named(tmp_path, caplog, form):
    table = tmp_path / "all.tsv"
    text = "".join(f"{form.format(name=name)}\tThere is {name}, today.\n" for name in NAMES)
    table.write_text(text)

    run(tmp_path, table)

    assert "100% of the pairs seem to be split into tokens" in caplog.text


@pytest.mark.parametrize(
    "name", ["my", "a b", "a,b", "a[b]{c}(d)", "a=b", "it's", "null", "\u00e4"]
)
def test_the_next_command_can_be_read(tmp_path, table, capsys, name):
    keys = ["source=de", "target=en", f"output={tmp_path / name}"]
    prepare(load_command("prepare", PrepareConfig, [f"input={table}", *keys]))

    command = capsys.readouterr().out.splitlines()[-1].removeprefix("Next: ")
    config = load_config(*shlex.split(command)[2:])

    assert config.run_name == name
    assert config.data.train == [f"{tmp_path / name}/train.{end}" for end in ("de", "en")]


def test_line_breaks_that_become_spaces_are_counted(tmp_path, capsys):
    table = tmp_path / "all.csv"
    table.write_text("".join(f"{line}\n" for line in ("Ja,Yes", '"Ein\nHund","A\ndog"')))

    run(tmp_path, table)

    assert "cleaned        1  line breaks, which became spaces" in capsys.readouterr().out


def test_standard_input_is_a_table_and_a_pattern_means_its_files(tmp_path, table, capsys):
    (tmp_path / "b.tsv").write_text("Ja.\tYes.\n")
    keys = ["source=de", "target=en", "check=true"]
    standard = os.dup(0)
    with table.open("rb") as file:
        os.dup2(file.fileno(), 0)
        prepare(load_command("prepare", PrepareConfig, ["input=-", *keys]))
        os.dup2(standard, 0)
    prepare(load_command("prepare", PrepareConfig, [f"input={tmp_path}/*.tsv", *keys]))

    assert re.findall("(.*) pairs, de to en", capsys.readouterr().out) == ["407", "408"]
