import pytest

from seq2seq.cli.studies import translations as module
from seq2seq.cli.studies.translations import best_run, choose_sentences, translations


def test_each_group_translates_the_same_sentences_with_its_best_run(groups, trained):
    sentences, notes = translations(groups)

    assert notes == []
    sources = (trained / "none-1" / "test.src").read_text().splitlines()
    assert sorted(each.source for each in sentences) == sorted(sources)
    for sentence in sentences:
        assert [each.group for each in sentence.translations] == [0, 1]
        for each in sentence.translations:
            run = best_run(groups[each.group])
            written = (run.path / "test.hyp").read_text().splitlines()
            assert each.text == written[sources.index(sentence.source)]


def test_weights_are_percent_of_each_token(groups):
    sentences, _ = translations(groups)

    index = [group.label for group in groups].index("multihead")
    for sentence in sentences:
        found = sentence.translations[index]
        assert len(found.weights) == 2
        for head in found.weights:
            assert [len(row) for row in head] == [len(found.source_tokens)] * len(
                found.target_tokens
            )
            for row in head:
                assert sum(row) == pytest.approx(100, abs=len(row) / 2)
        assert sentence.translations[1 - index].weights == []


def test_sentences_too_large_for_the_page_are_counted(groups, monkeypatch):
    monkeypatch.setattr(module, "_MAX_WEIGHTS", 1)

    sentences, notes = translations(groups)

    assert sentences == []
    assert notes[0].startswith("3 of 3 sentences are not shown")


@pytest.mark.parametrize("number", [1, 3, 50])
def test_sentences_of_all_lengths_are_chosen_once(number):
    sources = ["w " * length for length in (5, 1, 9, 3, 0, 7)]

    chosen = choose_sentences(sources, number)

    assert len(chosen) == len(set(chosen)) == min(number, 5)
    assert 4 not in chosen
    lengths = [len(sources[i]) for i in chosen]
    assert lengths == sorted(lengths)
