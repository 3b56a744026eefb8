import re
import shutil

import numpy as np
import pytest
from plotly.offline import get_plotlyjs
from tiny_study import (
    SIGNATURE,
    cells_of,
    change_results,
    read_study,
    record_failure,
    write_run,
    write_study,
)

from seq2seq.studies import sentences as module
from seq2seq.studies.comparison import Agreement, Difference, compare_measures
from seq2seq.studies.probes import GroupLosses
from seq2seq.studies.report import answers_section, results_section, settings_table
from seq2seq.studies.runs import read_runs
from seq2seq.studies.sentences import choose_sentences, sentence_numbers, shown_sentences


def groups_on(page):
    return re.findall(r'class="mark".*?</span><span>(.*?)</span>', page, re.DOTALL)


def test_the_summary_names_the_best_group_and_runs_that_were_best_at_their_end(tmp_path):
    write_study(tmp_path)
    change_results(tmp_path / "0-grammar-none-seed-1", updates=12)
    change_results(tmp_path / "1-grammar-none-seed-2", updates=20)

    first, best, last = results_section(read_study(tmp_path)).paragraphs

    assert first == "4 runs in 2 groups, which differ in attention."
    assert best.startswith("Best on the validation set: dot, with 31.00 \xb1 1.41 BLEU")
    assert last.endswith("may score higher: none (1 of 2).")


def test_the_tables_have_means_and_comparisons_and_a_row_for_every_run(tmp_path):
    study = read_study(write_study(tmp_path))

    section = results_section(study)

    dot, none = cells_of(section.tables[0]).values()
    assert (dot["attention"].text, dot["BLEU"].value) == ("dot", 31.0)
    assert dot["Difference"].text == "baseline"
    assert none["Difference"].value == study.comparisons[1].result.effect
    assert none["p (Holm)"].value == study.comparisons[1].result.p_corrected
    assert none["Parameters"].text == "1,234"
    assert none["BLEU"].text == "10.00 \xb1 0.71"

    names = [row[0].text for row in section.tables[1].rows]
    assert sorted(names) == sorted(path.name for path in tmp_path.iterdir())


def rows_of(table):
    return {key.text: value.text for key, value in table.rows}


def test_equal_settings_are_listed_without_those_of_the_machine(tmp_path):
    for number, attention in enumerate(("dot", "none")):
        path = write_run(tmp_path / f"{number}")
        (path / "config.yaml").write_text(
            f"seed: {number}\nattention: {{name: {attention}}}\n"
            "data: {name: grammar, cache_dir: /home/me/cache}\ntraining: {max_epochs: 2}\n",
        )
        change_results(path, device="cpu, 2 threads")
    [table] = settings_table(read_runs([tmp_path]))
    results = tmp_path / "1" / "results.json"
    results.write_text(results.read_text().replace("tok:13a", "tok:char"))
    [other] = settings_table(read_runs([tmp_path]))
    write_run(tmp_path / "without-configuration")

    shared = {"data": "grammar", "training.max_epochs": "2", "device": "cpu, 2 threads"}
    assert rows_of(table) == shared | {"signature of BLEU": SIGNATURE}
    assert table.is_folded
    assert rows_of(other) == shared
    assert settings_table(read_runs([tmp_path])) == []


def test_a_trained_study_is_reported_in_full(trained, report):
    page, data = report(trained)

    sections = ("Learning curves", "Attention", "BLEU by source length")
    for title in ("Results", *sections):
        assert f">{title}</h2>" in page
    assert "Is attention an explanation?" not in page  # nothing was measured
    assert "All runs ended, and all of them are compared." in page
    assert sorted(groups_on(page)) == ["multihead", "none"]
    assert page.count('<div class="chart">') == 11 + 2
    assert len(data["sentences"]) == 3
    assert len(page) - len(get_plotlyjs()) < 200_000


def test_failures_missing_seeds_other_signatures_and_devices_are_named(tmp_path, report):
    write_run(tmp_path / "0", "attention=dot", "seed=1")
    write_run(tmp_path / "1", "attention=dot", "seed=2")
    write_run(tmp_path / "2", "attention=none", "seed=1")
    results = tmp_path / "2" / "results.json"
    results.write_text(results.read_text().replace("tok:13a", "tok:char"))
    record_failure(tmp_path / "3", "the loss is not finite", ["attention=none", "seed=2"])

    for number, device in enumerate(("cpu, 1 thread", "NVIDIA H100")):
        change_results(tmp_path / f"{number}", device=device)

    page, _ = report(tmp_path)

    assert "times cannot be compared: cpu, 1 thread; NVIDIA H100.</li>" in page
    assert "<li>3 failed: the loss is not finite.</li>" in page
    assert "<li>none has no results with seed 2.</li>" in page
    assert "different signatures" in page
    assert SIGNATURE in page
    assert SIGNATURE.replace("13a", "char") in page
    assert "All runs ended" not in page


def test_what_a_run_has_not_kept_is_named(tmp_path, report):
    page, data = report(write_study(tmp_path))

    assert "0-grammar-none-seed-1 has no learning curves" in page
    assert "BLEU by source length is not shown" in page
    assert "No sentences are shown" in page
    assert data["sentences"] == []


def test_a_damaged_checkpoint_leaves_out_its_translations_only(trained, tmp_path, report):
    shutil.copytree(trained, tmp_path / "copy")
    for path in (tmp_path / "copy").glob("none-*/best.pt"):
        path.write_bytes(b"damaged")

    page, data = report(tmp_path / "copy")

    assert "translates no sentences here" in page
    translations = [one for each in data["sentences"] for one in each["translations"]]
    groups = groups_on(page)
    assert {groups[one["group"]] for one in translations} == {"multihead"}


def test_each_group_translates_the_same_sentences_with_its_best_run(groups, trained):
    notes = []
    sentences = shown_sentences(groups, notes)

    assert notes == []
    sources = (trained / "none-1" / "test.src").read_text().splitlines()
    assert sorted(each["source"] for each in sentences) == sorted(sources)
    for sentence in sentences:
        assert [each["group"] for each in sentence["translations"]] == [0, 1]
        for each in sentence["translations"]:
            run = groups[each["group"]].best
            written = (run.directory.path / "test.hyp").read_text().splitlines()
            assert each["text"] == written[sources.index(sentence["source"])]
    index = [group.label for group in groups].index("multihead")
    for sentence in sentences:
        found = sentence["translations"][index]["attention"]
        assert len(found["weights"]) == 2
        for head in found["weights"]:
            shape = [len(found["source_tokens"])] * len(found["target_tokens"])
            assert [len(row) for row in head] == shape
            for row in head:
                assert sum(row) == pytest.approx(1000, abs=len(row) / 2)
        assert sentence["translations"][1 - index]["attention"]["weights"] == []


def test_sentences_too_large_for_the_page_are_counted(groups, monkeypatch):
    monkeypatch.setattr(module, "_MAX_WEIGHTS", 1)

    notes = []
    sentences = shown_sentences(groups, notes)

    assert sentences == []
    assert notes[0].startswith("Sentences that are not shown")


def test_the_sentences_that_readers_look_for_join_those_of_all_lengths(groups, monkeypatch):
    for name, number in (("NUM_SENTENCES", 1), ("NUM_EXTREME", 1)):
        monkeypatch.setattr(module, name, number)
    best = [group.best for group in groups]
    for group, texts in zip(groups, (["a b", "a b", "c d"], ["a b", "a e", "c d"]), strict=True):
        for run in group.runs:
            run.translations, run.references = texts, ["a b", "a b", "x y"]
    # Predicted and sure links, and those that are found and right.
    errors = [
        [[2, 2, 1, 2], [2, 2, 0, 1], [2, 2, 2, 2]],
        [[2, 2, 2, 2], [2, 2, 1, 1], [2, 2, 2, 2]],
    ]
    for run, each, num_rows in zip(best, errors, (2, 5), strict=True):  # one head, and four
        run.statistics["aer"] = np.repeat(np.array(each)[:, None], num_rows, axis=1)

    numbers = sentence_numbers(
        best[0].references,
        [run.translations for run in best],
        [run.statistics for run in best],
    )

    assert numbers == {
        "Different translations": [1.0, 2.0, 1.0],
        "Words unlike the reference": [0.0, 0.25, 1.0],
        "AER": [0.125, 0.625, 0.0],
    }
    shown = [each["numbers"] for each in shown_sentences(groups, [])]
    assert {0.625} < {each["AER"] for each in shown}
    assert 1.0 in {each["Words unlike the reference"] for each in shown}
    assert shown == sorted(shown, key=lambda each: each["Source words"])


@pytest.mark.parametrize("number", [1, 3, 50])
def test_sentences_of_all_lengths_are_chosen_once(number):
    sources = ["w " * length for length in (5, 1, 9, 3, 0, 7)]

    chosen = choose_sentences(sources, number)

    assert len(chosen) == len(set(chosen)) == min(number, 5)
    assert 4 not in chosen
    lengths = [len(sources[i]) for i in chosen]
    assert lengths == sorted(lengths)


def uniform(p_value):
    """Return what the group `none` loses with uniform weights."""
    lost = Difference(12.0, 9.0, 15.0, p_value, "seeds and sentences")
    return GroupLosses(label="none", intervention="uniform", num_runs=2, losses={"bleu_lost": lost})


@pytest.fixture
def comparisons(tmp_path):
    return read_study(write_study(tmp_path)).comparisons


def answers(comparisons, losses=()):
    return cells_of(answers_section(comparisons, losses).tables[0])


def test_a_group_with_another_bleu_and_other_attention_says_so(comparisons):
    [none] = [each for each in comparisons if each.baseline]
    none.attention = Agreement(0.1, 0.4, 0.02, None, None, None)

    found = answers(comparisons, [uniform(0.01)])["none"]

    low, high = none.result.interval
    difference = f"{none.result.effect:+.2f} ({low:+.2f} to {high:+.2f})"
    assert found["Different BLEU?"].text == f"yes: {difference}"
    assert found["Different attention?"].text == "yes (p 0.020): 0.400, own seeds 0.100"
    assert found["Do its weights matter?"].text == "yes: 12.00 (9.00 to 15.00)"
    assert found["Valid for"].text == "seeds and sentences"


def test_what_is_not_shown_or_not_known_is_no_yes(comparisons):
    [none] = [each for each in comparisons if each.baseline]
    none.attention = Agreement(0.1, 0.2, None, 4, None, None)

    found = answers(comparisons, [uniform(0.2)])

    assert found["none"]["Different attention?"].text.startswith("needs 4 seeds: 0.200")
    assert found["none"]["Do its weights matter?"].text.startswith("not shown: 12.00")
    assert found["dot"]["Different BLEU?"].text == "baseline"
    assert found["dot"]["Do its weights matter?"].text == "-"
    same = answers(comparisons, [uniform(None)])["none"]["Do its weights matter?"].text
    assert same.startswith("nothing changes")


def test_every_measure_that_is_tested_has_a_row(comparisons):
    compare_measures(comparisons, [])

    table = answers_section(comparisons, []).tables[1]

    [none] = [each for each in comparisons if each.baseline]
    effects = [found.effect for found in none.measures.values()]
    assert effects and [row[2].value for row in table.rows] == effects
    assert {row[0].text for row in table.rows} == {"none"}
