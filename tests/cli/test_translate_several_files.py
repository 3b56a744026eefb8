import dataclasses
import gzip
import json

import pytest
from tiny_translator import BEST, GREEDY, SENTENCES, make_translate_config, make_translator

from seq2seq.cli.translate import translate
from seq2seq.cli.translate_config import OutputFormat
from seq2seq.inference.translator import Translator

FIRST, SECOND = SENTENCES[:5], SENTENCES[5:]


def write(path, lines):
    content = "".join(f"{line}\n" for line in lines).encode()
    path.write_bytes(gzip.compress(content) if path.suffix == ".gz" else content)
    return str(path)


def read(path):
    content = path.read_bytes()
    return (gzip.decompress(content) if path.suffix == ".gz" else content).decode().splitlines()


@pytest.fixture
def inputs(tmp_path):
    (tmp_path / "in").mkdir()
    return [write(tmp_path / "in" / "a.de", FIRST), write(tmp_path / "in" / "b.de.gz", SECOND)]


def outputs(tmp_path):
    return sorted(path.name for path in tmp_path.iterdir() if path.is_file())


def test_each_input_gets_its_own_output(checkpoint, inputs, tmp_path):
    paths = [tmp_path / "a.en.gz", tmp_path / "b.en"]

    translate(make_translate_config(checkpoint, input=inputs, output=list(map(str, paths))))

    for path, lines in zip(paths, (FIRST, SECOND), strict=True):
        assert read(path) == [each.text for each in make_translator()(lines, BEST)]


def test_an_input_without_lines_gets_a_warning_and_an_output_without_lines(
    checkpoint, inputs, tmp_path, caplog
):
    empty = write(tmp_path / "in" / "none.de", [])
    paths = [tmp_path / "none.en", tmp_path / "a.en"]

    translate(
        make_translate_config(checkpoint, input=[empty, inputs[0]], output=list(map(str, paths)))
    )

    assert [len(read(path)) for path in paths] == [0, len(FIRST)]
    assert caplog.text.count("has no lines") == 1
    assert f"input={empty} has no lines" in caplog.text


def test_nbest_numbers_start_from_0_in_each_output(checkpoint, inputs, tmp_path, capfdbinary):
    nbest = {"input": inputs, "output_format": OutputFormat.nbest}
    paths = [tmp_path / "a.nbest", tmp_path / "b.nbest"]

    translate(make_translate_config(checkpoint, **nbest, output=list(map(str, paths))))
    translate(make_translate_config(checkpoint, **nbest))

    def numbers(lines):
        return sorted({int(line.split(" ||| ")[0]) for line in lines})

    assert [numbers(read(path)) for path in paths] == [list(range(5)), list(range(3))]
    assert numbers(capfdbinary.readouterr().out.decode().splitlines()) == list(range(8))


def test_reports_and_json_have_all_inputs(checkpoint, inputs, tmp_path):
    paths = [tmp_path / "a.json", tmp_path / "b.json"]
    links, page = tmp_path / "links.gz", tmp_path / "page.html"

    translate(
        make_translate_config(
            checkpoint,
            input=inputs,
            output=list(map(str, paths)),
            output_format=OutputFormat.json,
            alignments=str(links),
            attention_html=str(page),
        )
    )

    sources = [[json.loads(line)["source"] for line in read(path)] for path in paths]
    assert sources == [FIRST, SECOND]
    assert len(gzip.decompress(links.read_bytes()).split(b"\n")) == len(SENTENCES) + 1
    assert "line 8, log-probability" in page.read_text(encoding="utf-8")


def test_a_warning_counts_the_lines_of_all_inputs(checkpoint, inputs, tmp_path, caplog):
    paths = [str(tmp_path / "a.en"), str(tmp_path / "b.en")]
    short = dataclasses.replace(GREEDY, max_length_ratio=0.0, max_length_offset=1)

    translate(make_translate_config(checkpoint, input=inputs, output=paths, decoding=short))

    of_limits, of_empty = caplog.messages
    lines = f"(lines input={inputs[0]}:2, input={inputs[0]}:4)"
    assert of_limits.startswith(
        f"translations that reached the length limit: 2 of 8 {lines}; raise decoding.max_length_r"
    )
    assert of_empty.startswith(
        f"sentences whose translation is empty: 4 of 8 (lines input={inputs[0]}"
    )


def test_a_missing_second_input_or_directory_stops_before_anything_is_translated(
    checkpoint, inputs, tmp_path, monkeypatch
):
    monkeypatch.setattr(Translator, "search_batch", None)
    paths = [str(tmp_path / "a.en"), str(tmp_path / "nowhere" / "b.en")]

    with pytest.raises(FileNotFoundError, match=r"nowhere\.de"):
        translate(make_translate_config(checkpoint, input=[inputs[0], "nowhere.de"]))
    with pytest.raises(FileNotFoundError, match=r"b\.en"):
        translate(make_translate_config(checkpoint, input=inputs, output=paths))

    assert outputs(tmp_path) == []


def test_a_line_of_very_many_tokens_is_cut_and_each_part_has_attention(
    checkpoint, tmp_path, caplog
):
    path = write(tmp_path / "a.de", ["ja", "ja " * 500])
    written = {name: str(tmp_path / name) for name in ("output", "alignments", "attention_html")}

    translate(
        make_translate_config(checkpoint, input=path, output_format=OutputFormat.json, **written)
    )

    first, last = map(json.loads, (tmp_path / "output").read_text().splitlines())
    assert [len(each["sentences"]) for each in (first, last)] == [1, 16]
    for sentence in (*first["sentences"], *last["sentences"]):
        best = sentence["hypotheses"][0]
        assert [len(rows) for rows in best["attention"]] == [len(best["tokens"])]
    page = (tmp_path / "attention_html").read_text()
    assert page.count('class="attention"') == 17
    assert "line 2, sentence 16, log-probability" in page
    assert (tmp_path / "alignments").read_text().count("\n") == 2
    [split] = (each for each in caplog.messages if "translation is empty" not in each)
    assert split.startswith("lines that were cut into parts, because they or their sentences have")
    assert "tokens: 1 (line 2); split=never keeps" in split
