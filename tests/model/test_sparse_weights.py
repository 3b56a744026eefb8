"""Check that weights of exactly 0 pass through evaluation, figures and pages as they are."""

import dataclasses
import io
import json
import re

import pytest
import torch
from tiny_attention import attention_config
from tiny_models import tiny_batch, tiny_model
from torch.testing import assert_close

from seq2seq.attention import Normalizer
from seq2seq.evaluation.alignment import argmax_links, word_weights
from seq2seq.training.loss import guided_loss
from seq2seq.visualization.page import AttentionPage
from seq2seq.visualization.plots import attention_figure

# B=3, S=5, T=4, N heads
SPARSE = [each for each in Normalizer if each is not Normalizer.softmax]
LABELS = ["\u2581a", "\u2581b", "\u2581c", "\u2581d", "</s>"]


@pytest.fixture(params=["general", "multihead"])
def name(request):
    return request.param


@pytest.fixture(params=SPARSE, ids=lambda each: each.name)
def weights(request, name):
    """Return weights of a model, (B, N, T, S); the first source and the second target are full."""
    config = dataclasses.replace(attention_config(name), normalizer=request.param)
    model, batch = tiny_model(config), tiny_batch()
    found = model(batch.source_ids, batch.source_mask, batch.previous_ids).attention_weights
    assert (found[0, :, :3] == 0).any()
    assert (found[0, :, :3] > 0).any()
    return found.detach()


def test_words_without_weight_get_no_link(weights):
    tokens = weights[0, :, :4]
    tokens[:, 2] = torch.eye(5)[4]  # reads EOS alone

    words = word_weights(tokens, [0, 1, 2, 3], [0, 1, 2, 3], target_tokens=LABELS[:4])

    assert_close(words, tokens.mean(0)[:, :4].float())
    assert torch.equal(words == 0, tokens.mean(0)[:, :4] == 0)
    assert {target for _, target in argmax_links(words)} <= {0, 1, 3}


def test_zeros_are_on_the_page_and_in_the_picture(weights):
    tokens, output = weights[0, :, :3], io.BytesIO()
    page = AttentionPage(output)
    page.add(
        source="a b c d",
        target="a b",
        source_tokens=LABELS,
        target_tokens=LABELS[2:],
        attention_weights=tokens,
        note="",
    )
    page.close()

    block = re.search(rb'class="attention">(.*?)</script>', output.getvalue())
    written = torch.tensor(json.loads(block[1])["weights"])
    figure = attention_figure(tokens, LABELS, LABELS[2:])
    drawn = torch.stack([torch.tensor(axes.images[0].get_array().data) for axes in figure.axes])
    assert not written[tokens == 0].any()
    assert torch.equal(drawn == 0, tokens == 0)


def test_guided_attention_of_a_zero_is_finite(weights):
    leaf = weights.clone().requires_grad_()
    guide = torch.zeros(3, 4, 5).double()
    guide[..., 0] = 1

    loss, _ = guided_loss(leaf, guide)
    loss.backward()

    assert loss.isfinite()
    assert leaf.grad.isfinite().all()
