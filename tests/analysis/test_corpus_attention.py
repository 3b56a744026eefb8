import numpy as np
import pytest
from tiny_translator import make_translator

from seq2seq.analysis import attend
from seq2seq.evaluation.alignment import GoldLinks, alignment_error_rate

PAIRS = [("ab cd", "ab c"), ("efg", "h a bc")]
GOLD = [GoldLinks(links, links) for links in (frozenset({(0, 0), (1, 1)}), frozenset({(0, 2)}))]


def test_weights_and_tokens_fit_together():
    attention = attend(make_translator("multihead"), PAIRS)

    assert len(attention.weights) == 2
    rows = zip(attention.weights, attention.target_tokens, attention.source_tokens, strict=True)
    for weights, target, source in rows:
        assert isinstance(weights, np.ndarray)
        assert weights.shape == (attention.translator.num_heads, len(target), len(source))
        np.testing.assert_allclose(weights.sum(axis=-1), 1, rtol=1e-5)


def test_statistics_follow_their_definitions():
    attention = attend(make_translator("multihead"), PAIRS)

    heads = attention.statistics(GOLD)

    for number, head in enumerate(heads):
        rows = [weights[number] for weights in attention.weights]
        entropy = np.concatenate([-(row * np.log(row)).sum(-1) for row in rows]).mean()
        sharpness = np.concatenate([row.max(-1) for row in rows]).mean()
        coverage = np.concatenate([row.sum(0)[:-1].clip(max=1) for row in rows]).mean()
        assert head.entropy == pytest.approx(entropy, rel=1e-5)
        assert head.sharpness == pytest.approx(sharpness, rel=1e-5)
        assert head.coverage == pytest.approx(coverage, rel=1e-5)
        links = attention.links(head=number)
        assert head.alignment_error_rate == alignment_error_rate(links, GOLD)
    assert len(heads) == attention.translator.num_heads > 1
    assert attention.statistics()[0].alignment_error_rate is None


def test_links_of_the_mean_differ_from_those_of_a_head():
    attention = attend(make_translator("multihead"), PAIRS)

    each = [attention.links(head=head) for head in range(attention.translator.num_heads)]

    assert any(links != attention.links() for links in each)


@pytest.mark.parametrize("head", [-1, 4])
def test_a_head_that_does_not_exist_is_named(head):
    attention = attend(make_translator("multihead"), PAIRS)

    with pytest.raises(ValueError, match=f"^head={head} must lie in 0 to 3$"):
        attention.links(head=head)


def test_gold_links_of_another_corpus_are_refused():
    attention = attend(make_translator(), PAIRS)

    with pytest.raises(ValueError, match=r"^1 gold alignments do not fit 2 sentence pairs; give "):
        attention.alignment_error_rate(GOLD[:1])


def test_figures_have_a_panel_for_each_head_and_each_statistic():
    attention = attend(make_translator("multihead"), PAIRS)

    assert len(attention.figure(1).axes) == attention.translator.num_heads
    panels = len(attention.head_figure().axes)
    assert len(attention.head_figure(GOLD).axes) == panels + 1


def test_model_without_attention_has_no_statistics_and_no_links():
    attention = attend(make_translator("none"), PAIRS)

    assert attention.statistics() == []
    with pytest.raises(ValueError, match="attention without heads"):
        attention.links()
