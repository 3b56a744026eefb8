"""`seq2seq-prepare` makes a corpus that does not leak, and accounts for every pair."""

import random
import re

import pytest

from seq2seq.cli.command_line import load_command
from seq2seq.cli.prepare import Kept, PrepareConfig, prepare, split
from seq2seq.data.quality import text_key

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
    assert re.findall("cleaned        1  (.*)\n", printed) == ["HTML entities", "HTML tags"]
    assert f"dropped        1  an empty side\n{'':18}all.tsv:402:  | Nothing.\n" in printed
    assert "Next: python train.py data=files 'data.train=[" in printed


def test_held_out_pairs_share_no_side_with_others_and_hardly_move(tmp_path):
    chosen = random.Random(1).sample(PAIRS, 300)
    repeated = [(chosen[0][0].lower(), "Another translation."), ("Noch ein Satz.", chosen[1][1])]
    kept = [Kept(*pair, tuple(hash(text_key(side)) for side in pair)) for pair in chosen + repeated]

    sets = split(kept, valid=40, test=None)
    fewer = split(kept[10:], valid=40, test=None)

    assert [len(sets[name]) for name in ("train", "valid", "test")] == [247, 40, 15]
    for name in ("valid", "test"):
        for side in (0, 1):
            own = {text_key(pair[side]) for pair in sets[name]}
            others = [pair for other in sets if other != name for pair in sets[other]]
            assert own.isdisjoint(text_key(pair[side]) for pair in others)
    assert len({*sets["valid"]} & {*fewer["valid"]}) > 30
    assert "valid" not in split(kept, valid=0, test=0)


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
        (["keep=[empty]"], "keep=empty: it must be one of: long, ratio,"),
        (
            ["valid=399", "test=3"],
            "401 of 401 pairs have a source .* too few for valid=399 and test=3",
        ),
        (["columns=[de,fr]"], "choose the source and the target"),
    ],
)
def test_what_cannot_be_done_is_refused_and_nothing_is_written(tmp_path, table, keys, message):
    with pytest.raises(ValueError, match=message):
        run(tmp_path, table, *keys)

    assert [*tmp_path.iterdir()] == [table]


def test_a_text_without_a_sound_pair_is_refused_after_its_report(tmp_path, capsys):
    table = tmp_path / "all.tsv"
    table.write_bytes(b"\xe4\ta\n\n")

    with pytest.raises(ValueError, match="no pair is left; look at the faults above"):
        prepare(load_command("prepare", PrepareConfig, [f"input={table}", "check=true"]))

    assert "bytes that are not UTF-8" in capsys.readouterr().out


def test_no_file_is_replaced(tmp_path, table):
    folder = tmp_path / "out"
    folder.mkdir()
    (folder / "valid.en").write_text("mine\n")

    with pytest.raises(FileExistsError, match=r"valid\.en exists; give another output"):
        run(tmp_path, table)

    assert [path.name for path in folder.iterdir()] == ["valid.en"]
    assert (folder / "valid.en").read_text() == "mine\n"
