"""What a sentence gets is its own affair: neighbours, batch size, order and padding change nothing.

Over a real model, every search and the options that keep something of their own for each row.
"""

import random

import pytest

from seq2seq.search import EarlyStopping, search
from seq2seq.special_tokens import EOS

SETTINGS = {
    "greedy": ("greedy", {}),
    "greedy-constrained": ("greedy", {"no_repeat_ngram": 2, "min_length": 2}),
    "beam": ("beam", {"beam_size": 4, "n_best": 3}),
    "beam-coverage": ("beam", {"beam_size": 4, "n_best": 2, "coverage_penalty": 0.3}),
    "beam-first": ("beam", {"beam_size": 3, "early_stopping": EarlyStopping.first}),
    "beam-constrained": ("beam", {"beam_size": 3, "no_repeat_ngram": 1, "min_length_ratio": 0.5}),
    "sampling": ("sampling", {"num_samples": 3, "n_best": 3}),
    "sampling-filtered": ("sampling", {"top_k": 5, "top_p": 0.8, "temperature": 2.0}),
}


@pytest.fixture(scope="module")
def sources():
    draw = random.Random(3)
    return [[*draw.choices(range(4, 8), k=draw.randint(0, 9)), EOS] for _ in range(64)]


@pytest.fixture(scope="module")
def model(tools):
    return tools.real_model(attention="additive", form="bahdanau")


@pytest.fixture(params=SETTINGS)
def config(request, tools):
    name, changes = SETTINGS[request.param]
    return tools.decoding(name, **changes)


def in_batches(tools, model, sources, config, *, size, extra=0):
    found = []
    for start in range(0, len(sources), size):
        batch = tools.pad(sources[start : start + size], extra=extra)
        found += search(model, *batch, config)
    return found


def ids(found):
    return [[(each.finished, each.ids) for each in hypotheses] for hypotheses in found]


def test_batches_of_1_and_7_and_64_give_the_same(tools, model, sources, config):
    alone, few, all_at_once = (
        in_batches(tools, model, sources, config, size=size) for size in (1, 7, 64)
    )

    assert ids(alone) == ids(few) == ids(all_at_once)
    for hypotheses, others in zip(alone, all_at_once, strict=True):
        for one, other in zip(hypotheses, others, strict=True):
            assert one.score == pytest.approx(other.score, abs=1e-4)


def test_shuffled_input_gives_shuffled_output(tools, model, sources, config):
    order = list(range(len(sources)))
    random.Random(5).shuffle(order)

    in_order = in_batches(tools, model, sources, config, size=16)
    shuffled = in_batches(tools, model, [sources[at] for at in order], config, size=16)

    assert ids(shuffled) == ids([in_order[at] for at in order])


def test_padding_changes_nothing(tools, model, sources, config):
    narrow = in_batches(tools, model, sources, config, size=16)
    wide = in_batches(tools, model, sources, config, size=16, extra=5)

    assert ids(narrow) == ids(wide)


def test_the_same_sentence_gets_the_same_wherever_it_stands(tools, model, sources, config):
    found = in_batches(tools, model, [sources[3], *sources, sources[3]], config, size=66)

    assert ids([found[0]]) == ids([found[4]]) == ids([found[-1]])
