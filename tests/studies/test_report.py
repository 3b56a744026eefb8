import re
import shutil

import numpy as np
import pandas as pd
import pytest
from plotly.offline import get_plotlyjs
from tiny_study import (
    SIGNATURE,
    change_results,
    read_study,
    record_failure,
    write_run,
    write_study,
)

from seq2seq.evaluation.significance import SENTENCES_ONLY
from seq2seq.studies import sentences as module
from seq2seq.studies.probes import LOSS_COLUMNS
from seq2seq.studies.report import render_report, study_page, tables_text
from seq2seq.studies.sentences import choose_sentences, sentence_numbers, shown_sentences
from seq2seq.studies.tables import answers, result_tables


def groups_on(page):
    return re.findall(r'class="mark".*?</span><span>(.*?)</span>', page, re.DOTALL)


def test_the_summary_names_the_best_group_and_runs_that_were_best_at_their_end(tmp_path):
    write_study(tmp_path)
    change_results(tmp_path / "0-grammar-none-seed-1", updates=12)
    change_results(tmp_path / "1-grammar-none-seed-2", updates=20)

    first, best, last = study_page(read_study(tmp_path), name="tiny")["summary"]

    assert first == "4 runs in 2 groups, which differ in attention."
    assert best.startswith("Best on the validation set: dot, with 31.00 \xb1 1.41 BLEU")
    assert last.endswith("may score higher: none (1 of 2).")


def test_every_run_has_a_row_with_its_swept_values(tmp_path):
    _, runs, *_ = result_tables(read_study(write_study(tmp_path))).values()

    assert runs.index.names == ["Run", "attention", "seed"]
    assert {name for name, *_ in runs.index} == {path.name for path in tmp_path.iterdir()}
    assert runs.loc[("3-grammar-dot-seed-2", "dot", "2"), "BLEU"] == "32.00"


def settings(path):
    return result_tables(read_study(path))["Settings that all runs share"]["Value"].to_dict()


def test_equal_settings_are_listed_without_those_of_the_machine(tmp_path):
    for number, attention in enumerate(("dot", "none")):
        path = write_run(tmp_path / f"{number}")
        (path / "config.yaml").write_text(
            f"seed: {number}\nattention: {{name: {attention}}}\n"
            "data: {name: grammar, cache_dir: /home/me/cache}\ntraining: {max_epochs: 2}\n",
        )
        change_results(path, device="cpu, 2 threads")
    table = settings(tmp_path)
    results = tmp_path / "1" / "results.json"
    results.write_text(results.read_text().replace("tok:13a", "tok:char"))
    other = settings(tmp_path)
    write_run(tmp_path / "without-configuration")

    shared = {"data": "grammar", "training.max_epochs": "2", "device": "cpu, 2 threads"}
    assert table == shared | {"signature of BLEU": SIGNATURE}
    assert other == shared
    assert settings(tmp_path) == {}


def test_a_trained_study_is_reported_in_full(trained, report):
    page, data = report(trained)

    sections = ("Learning curves", "Attention", "BLEU by source length")
    for title in ("Results", *sections):
        assert f">{title}</h2>" in page
    assert "Is attention an explanation?" not in page  # nothing was measured
    assert "All runs ended, and all of them are compared." in page
    assert sorted(groups_on(page)) == ["multihead", "none"]
    assert page.count('<div class="chart">') == 10 + 2
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

    assert "be compared: cpu, 1 thread (1 run); NVIDIA H100 (1 run).</li>" in page
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


def test_each_group_translates_the_same_sentences_with_its_best_run(finished, trained):
    sources = (trained / "none-1" / "test.src").read_text().splitlines()
    sentences = shown_sentences(finished, sources, notes := [])

    assert notes == []
    assert sorted(each["source"] for each in sentences) == sorted(sources)
    groups = list(finished["group"].unique())
    for sentence in sentences:
        assert [each["group"] for each in sentence["translations"]] == [0, 1]
        for each in sentence["translations"]:
            runs = finished[finished["group"] == groups[each["group"]]]
            written = runs.loc[runs["valid_bleu"].idxmax(), "translations"]
            assert each["text"] == written[sources.index(sentence["source"])]
    index = groups.index("multihead")
    for sentence in sentences:
        found = sentence["translations"][index]["attention"]
        assert len(found["weights"]) == 2
        for head in found["weights"]:
            shape = [len(found["source_tokens"])] * len(found["target_tokens"])
            assert [len(row) for row in head] == shape
            for row in head:
                assert sum(row) == pytest.approx(1000, abs=len(row) / 2)
        assert sentence["translations"][1 - index]["attention"]["weights"] == []


def test_sentences_too_large_for_the_page_are_counted(finished, monkeypatch):
    monkeypatch.setattr(module, "_MAX_WEIGHTS", 1)

    sentences = shown_sentences(finished, ["ab", "cd", "ef"], notes := [])

    assert sentences == []
    assert notes[0].startswith("Sentences that are not shown")


def test_the_numbers_of_sentences_order_what_readers_look_for():
    # Predicted and sure links, and those that are found and right.
    errors = [
        [[2, 2, 1, 2], [2, 2, 0, 1], [2, 2, 2, 2]],
        [[2, 2, 2, 2], [2, 2, 1, 1], [2, 2, 2, 2]],
    ]
    runs = pd.DataFrame(
        {
            "translations": [["a b", "a b", "c d"], ["a b", "a e", "c d"]],
            "statistics": [
                {"aer": np.repeat(np.array(each)[:, None], num_rows, axis=1)}  # one head, and four
                for each, num_rows in zip(errors, (2, 5), strict=True)
            ],
        }
    )

    assert sentence_numbers(["a b", "a b", "x y"], runs) == {
        "Different translations": [1.0, 2.0, 1.0],
        "Words unlike the reference": [0.0, 0.25, 1.0],
        "AER": [0.125, 0.625, 0.0],
    }


@pytest.mark.parametrize("number", [1, 3, 50])
def test_sentences_of_all_lengths_are_chosen_once(number):
    sources = ["w " * length for length in (5, 1, 9, 3, 0, 7)]

    chosen = choose_sentences(sources, number)

    assert len(chosen) == len(set(chosen)) == min(number, 5)
    assert 4 not in chosen
    lengths = [len(sources[i]) for i in chosen]
    assert lengths == sorted(lengths)


@pytest.fixture
def study(tmp_path):
    return read_study(write_study(tmp_path))


def answers_of(study, p_value=None, **agreement):
    """Return the answers about `none`, which loses 12 BLEU with uniform weights."""
    row = ["none", "uniform", 2, 12.0, 9.0, 15.0, p_value, *[np.nan] * 7, "seeds and sentences"]
    losses = pd.DataFrame([row], columns=LOSS_COLUMNS)
    groups = study.groups.copy()
    for name, value in agreement.items():
        groups.loc["none", name] = value
    return answers(study._replace(losses=losses, groups=groups))["Each group beside its baseline"]


def test_a_group_with_another_bleu_and_other_attention_says_so(study):
    found = answers_of(
        study, 0.01, agreement_within=0.1, agreement_between=0.4, agreement_p=0.02
    ).loc["none"]

    bleu = study.differences.loc[("bleu", "none")]
    low, high = bleu["difference_low"], bleu["difference_high"]
    difference = f"{bleu['difference']:+.2f} ({low:+.2f} to {high:+.2f})"
    assert found["Different BLEU?"] == f"yes: {difference}"
    assert found["Different attention?"] == "yes (p 0.020): 0.400, own seeds 0.100"
    assert found["Do its weights matter?"] == "yes: 12.00 (9.00 to 15.00)"
    assert found["Valid for"] == "seeds and sentences"


def test_what_is_not_shown_or_not_known_is_no_yes(study):
    found = answers_of(
        study, 0.2, agreement_within=0.1, agreement_between=0.2, agreement_seeds_needed=4
    )

    assert found.loc["none", "Different attention?"].startswith("needs 4 seeds: 0.200")
    assert found.loc["none", "Do its weights matter?"].startswith("not shown: 12.00")
    assert found.loc["dot", "Different BLEU?"] == "baseline"
    assert found.loc["dot", "Do its weights matter?"] == found.loc["dot", "Valid for"] == "-"
    same = answers_of(study, np.nan).loc["none", "Do its weights matter?"]
    assert same.startswith("nothing changes")


def test_every_measure_that_is_tested_has_a_row(study):
    _, table = answers(study).values()

    effects = study.differences.drop(index="bleu", level="measure")["difference"]
    assert list(table.index) == [("none", "chrF"), ("none", "TER")]
    assert table["Difference"].tolist() == [f"{effect:+.2f}" for effect in effects]


def test_tables_are_written_in_latex_and_markdown(tmp_path):
    for name in ("dot_1", "a|b"):
        write_run(tmp_path / name.replace("|", ""), f"attention={name}", bleu=30.0)
    page = study_page(read_study(tmp_path), name="tiny")

    latex, markdown = (tables_text(page, layout) for layout in ("latex", "markdown"))

    assert latex.startswith("% Groups: mean \xb1 standard deviation over the runs; * one run")
    assert "\\toprule" in latex and "dot\\_1 & 1 & 30.00 & 30.00 & " in latex
    rows = [line for line in markdown.splitlines() if line.startswith("| ")]
    assert any(row.startswith(r"| a\|b ") for row in rows)
    assert SENTENCES_ONLY in markdown


def test_a_lone_surrogate_is_replaced(study):
    page = study_page(study, name="a\udc80")

    assert "<title>Study a" in render_report(page)
