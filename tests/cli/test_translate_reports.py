import re
import resource

import pytest
from tiny_translator import SENTENCES, make_translate_config, write_checkpoint

from seq2seq.cli.translate import translate
from seq2seq.files.links import format_links
from seq2seq.inference.translator import Translator
from seq2seq.runtime.devices import Device, Precision

REFERENCES = ["ab cd", "a.", "", "hgfe dcb a", "", "ab cd", "c", "e f"]


@pytest.fixture(scope="module")
def links(checkpoint):
    """Return the links of each reference."""
    translator = Translator.load(checkpoint, device=Device.cpu, precision=Precision.fp32)
    pairs = zip(SENTENCES, REFERENCES, strict=True)
    return [translator.links(each, each.hypotheses[0]) for each in translator.score(pairs)]


@pytest.fixture
def files(tmp_path):
    """Write input and reference."""
    paths = {}
    for name, lines in (("input", SENTENCES), ("reference", REFERENCES)):
        path = tmp_path / f"{name}.txt"
        path.write_text("".join(f"{line}\n" for line in lines))
        paths[name] = str(path)
    return paths


@pytest.fixture
def input_file(files):
    return files["input"]


def write_gold(directory, lines):
    path = directory / "gold.align"
    path.write_text("".join(f"{line}\n" for line in lines))
    return str(path)


def test_each_hypothesis_with_text_gets_a_picture(checkpoint, tmp_path, capfdbinary):
    (tmp_path / "input.txt").write_text("ja\n\nnein\n")
    directory = tmp_path / "new" / "plots"

    translate(
        make_translate_config(
            checkpoint, input=str(tmp_path / "input.txt"), attention_plot=str(directory)
        )
    )

    names = sorted(path.name for path in directory.iterdir())
    assert names == ["000000-2.png", "000000.png", "000002-2.png", "000002.png"]
    assert (directory / "000000.png").read_bytes().startswith(b"\x89PNG")


def test_a_file_instead_of_a_directory_of_pictures_is_refused(checkpoint, tmp_path):
    (tmp_path / "input.txt").write_text("ja\n")
    config = make_translate_config(
        checkpoint, text="ja", attention_plot=str(tmp_path / "input.txt")
    )

    with pytest.raises(
        ValueError, match=r"^attention_plot=.*input\.txt is a file; name a directory"
    ):
        translate(config)

    assert (tmp_path / "input.txt").read_text() == "ja\n"


def test_a_picture_that_does_not_fit_on_the_disk_is_named_and_absent(checkpoint, tmp_path):
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (1000, limits[1]))
    try:
        with pytest.raises(OSError, match="large") as error:
            translate(make_translate_config(checkpoint, text="ja", attention_plot=str(tmp_path)))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    assert error.value.filename == str(tmp_path / "000000.png")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("key", ["alignments", "attention_plot", "attention_html", "gold"])
def test_reports_of_a_model_without_attention_are_an_error_before_anything_is_written(
    tmp_path, files, key
):
    checkpoint = write_checkpoint(tmp_path / "run", "none")
    output = tmp_path / "output.txt"

    with pytest.raises(ValueError, match=f"{key}=.* needs attention"):
        translate(
            make_translate_config(
                checkpoint, **files, output=str(output), **{key: str(tmp_path / "x")}
            )
        )

    assert sorted(path.name for path in tmp_path.iterdir()) == ["input.txt", "reference.txt", "run"]


def test_alignments_of_a_reference_are_those_of_its_words(
    checkpoint, files, tmp_path, capfdbinary, links
):
    path = tmp_path / "links.txt"

    translate(make_translate_config(checkpoint, **files, alignments=str(path)))

    assert path.read_text().splitlines() == [format_links(each) for each in links]
    for each, reference in zip(links, REFERENCES, strict=True):
        assert {target for _, target in each} <= set(range(len(reference.split())))


def test_the_page_has_the_best_translation_of_each_line_with_text(
    checkpoint, input_file, tmp_path, capfdbinary
):
    path = tmp_path / "page.html"

    translate(make_translate_config(checkpoint, input=input_file, attention_html=str(path)))

    page = path.read_bytes()
    assert page.rstrip().endswith(b"</html>")
    notes = [
        f'"note":"line {row}, log-probability -' for row, s in enumerate(SENTENCES, 1) if s.strip()
    ]
    assert all(page.count(note.encode()) == 1 for note in notes)
    assert page.count(b'"note":') == len(notes)


def test_precision_recall_and_error_rate_are_those_of_sure_and_possible_links(
    checkpoint, files, tmp_path, capfd, links
):
    # One sure link that is not found, and one found link that is only possible.
    (source, target), (missing_source, _) = min(links[0]), min(links[0])
    missing = f"{(missing_source + 1) % 3}-{target}"
    gold = write_gold(tmp_path, [f"{source}p{target} {missing}", *[""] * 7])
    num_links = sum(map(len, links))

    translate(make_translate_config(checkpoint, **files, gold=gold))

    assert (
        f"precision {1 / num_links:.3f}, recall 0.000, AER {1 - 1 / (num_links + 1):.3f}"
        in capfd.readouterr().err
    )


def test_gold_links_of_the_whole_text_fit_each_shard(checkpoint, files, tmp_path, capfd, links):
    gold = write_gold(tmp_path, map(format_links, links))
    counts = []
    for shard in ("1/2", "2/2"):
        translate(make_translate_config(checkpoint, **files, gold=gold, shard=shard))
        counts.append(re.search(r"AER (\S+) \((\d) sentences, (\d+) links", capfd.readouterr().err))

    assert [found.groups() for found in counts] == [
        ("0.000", "4", str(sum(map(len, part)))) for part in (links[:4], links[4:])
    ]


@pytest.mark.parametrize(
    ("lines", "base", "message"),
    [
        (["0-0"], 0, r"gold=\S+gold.align has 1 line, fewer than the reference"),
        ([""] * 10, 0, r"gold=\S+gold.align has 10 lines but the reference has 8"),
        (["", "1-0"], 0, r"gold.align:2: link 1-0 lies outside .* words: 1, target words: 1"),
        (["0p2"], 0, r"gold.align:1: link 0-2 lies outside .* words: 3, target words: 2"),
        (["4-1"], 1, r"gold.align:1: link 4-1 lies outside .* counted from 1$"),
        (["1-1", "0-1"], 1, r"gold.align:2: '0-1' is not counted from 1"),
        (["0-0", "0:0"], 0, r"gold.align:2: '0:0' is not a link"),
    ],
)
def test_gold_links_that_do_not_fit_are_an_error_and_leave_no_file(
    checkpoint, files, tmp_path, capfd, lines, base, message
):
    gold = write_gold(tmp_path, lines)
    outputs = {key: str(tmp_path / key) for key in ("output", "alignments", "attention_html")}

    with pytest.raises(ValueError, match=message) as error:
        translate(make_translate_config(checkpoint, **files, **outputs, gold=gold, gold_base=base))

    assert "\n" not in str(error.value)
    assert "alignment:" not in capfd.readouterr().err
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names == ["gold.align", "input.txt", "reference.txt"]
