import numpy as np
import pytest
import torch
from scipy.stats import kendalltau
from tiny_translator import SIZES
from torch import nn

from seq2seq.config.schema import build_model, load_config
from seq2seq.data.tokenizers.interface import TokenizerPair
from seq2seq.data.tokenizers.words import CharacterTokenizer
from seq2seq.inference.checkpoint import Checkpoint, load_checkpoint, save_checkpoint
from seq2seq.special_tokens import BOS, EOS
from seq2seq.studies.attribution import Attribution, attribute, kendall_tau

METHODS = ("attention", "erasure", "gradient")
CHARACTERS = CharacterTokenizer("abcde .")
PAIRS = [
    ("ab cad e", "ba."),
    ("dc", "ab c . de"),
    ("", "a"),
    ("e a", ""),
    ("ba bb", "c d"),
    (" ",) * 2,
]


def write(folder, *overrides):
    """Write a checkpoint of random weights; both languages have one vocabulary."""
    overrides = ["tokenizer=characters", *SIZES, *overrides]
    config, size = load_config(*overrides), len(CHARACTERS)
    torch.manual_seed(5)
    model = build_model(config, source_vocabulary_size=size, target_vocabulary_size=size)
    state = {name: 2 * value for name, value in model.state_dict().items()}
    both = TokenizerPair(CHARACTERS, CHARACTERS)
    checkpoint = Checkpoint(config=config, tokenizers=both, model_state=state, training_state=None)
    save_checkpoint(folder / "best.pt", checkpoint)
    return folder / "best.pt"


def characters_of_words(text):
    """Return the positions of each word in a text; a space belongs to the word after it."""
    found, start = [], 0
    for word in text.split():
        end = text.index(word, start) + len(word)
        found.append(list(range(start, end)))
        start = end
    return found


class Naive:
    """One pair in float64, a step and a source word at a time, without autograd."""

    def __init__(self, path, source, target):
        self.model = load_checkpoint(path).build_model().double().eval()
        self.source, self.target = source, target
        [ids, self.target_ids] = CHARACTERS.encode([source, target])
        self.vectors = self.model.encoder.embedding.weight[[*ids, EOS]].detach()
        self.words = characters_of_words(source)

    @torch.no_grad()
    def read(self, vectors):
        """Return log-probability and mean weights of each target word for source embeddings."""
        model, size = self.model, len(vectors)
        model.encoder.embedding = nn.Embedding.from_pretrained(vectors)
        memory, state = model.encode(torch.arange(size)[None], torch.ones(1, size).bool())
        found, weights, previous = [], [], BOS
        for token in self.target_ids:
            step = model.decoder.step(state, torch.tensor([previous]), memory)
            found.append(step.logits.log_softmax(-1)[0, token].item())
            weights.append(step.attention_weights[0].mean(0).numpy())
            state, previous = step.state, token
        return self.mean(found), self.mean(weights)

    def mean(self, values):
        """Average over the letters of each target word, or over all its characters."""
        means = []
        for word in characters_of_words(self.target):
            letters = [i for i in word if self.target[i].isalpha()] or word
            means.append(np.mean([values[i] for i in letters], axis=0))
        return np.array(means)

    def attention(self):
        _, weights = self.read(self.vectors)
        return np.stack([weights[:, word].sum(1) for word in self.words], axis=1)

    def erasure(self):
        known, columns = self.read(self.vectors)[0], []
        for word in self.words:
            kept = [i for i in range(len(self.vectors)) if i not in word]
            columns.append(known - self.read(self.vectors[kept])[0])
        return np.stack(columns, axis=1)

    def gradient(self, change=1e-5):
        """Return the effect of a small change of the size of the word's embeddings."""
        columns = []
        for word in self.words:
            larger, smaller = self.vectors.clone(), self.vectors.clone()
            larger[word] *= 1 + change
            smaller[word] *= 1 - change
            columns.append((self.read(larger)[0] - self.read(smaller)[0]) / (2 * change))
        return np.stack(columns, axis=1)


@pytest.mark.parametrize(
    "overrides",
    [
        ["attention=additive"],
        ["attention=coverage", "model.decoder.num_layers=2", "model.layer_norm=true"],
        ["attention=multihead", "attention.size=6", "attention.num_heads=3", "model=luong"],
        ["attention=general", "model=conditional", "model.tied_embeddings=all"],
        ["attention=local", "model=luong", "model.input_feeding=true"],
        ["attention=uniform", "model.encoder.self_attention=true"],
    ],
)
def test_each_method_equals_a_double_loop_in_float64(tmp_path, overrides):
    path = write(tmp_path, *overrides)

    found = attribute(path, PAIRS, device="cpu")

    for (source, target), each in zip(PAIRS, found, strict=True):
        assert each.source_words == source.split()
        assert each.target_words == target.split()
        if source.split() and target.split():
            for method in METHODS:
                expected = getattr(Naive(path, source, target), method)()
                np.testing.assert_allclose(getattr(each, method), expected, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("attention", ["additive", "location"])
def test_neither_padding_nor_the_batch_size_changes_a_result(tmp_path, attention):
    path = write(tmp_path, f"attention={attention}")
    alone = attribute(path, PAIRS, batch_size=1, device="cpu")

    for others in (attribute(path, PAIRS, batch_size=size, device="cpu") for size in (2, 64)):
        for one, other in zip(alone, others, strict=True):
            for method in METHODS:
                np.testing.assert_allclose(
                    getattr(other, method), getattr(one, method), rtol=1e-4, atol=1e-6
                )
            np.testing.assert_array_equal(other.tau_erasure, one.tau_erasure)
            np.testing.assert_array_equal(other.tau_gradient, one.tau_gradient)


def test_a_pair_without_text_on_one_side_has_no_cells(tmp_path):
    found = attribute(write(tmp_path), PAIRS, device="cpu")

    shapes = [each.attention.shape for each in found]
    assert shapes == [(1, 3), (4, 1), (1, 0), (0, 2), (2, 2), (0, 0)]
    assert shapes == [each.erasure.shape for each in found]
    assert shapes == [each.gradient.shape for each in found]
    assert np.isnan(found[2].tau_methods).all()  # nothing to rank
    assert attribute(write(tmp_path), [], device="cpu") == []


def test_a_model_without_attention_has_no_weights_and_keeps_the_other_methods(tmp_path):
    each = attribute(write(tmp_path, "attention=none"), PAIRS, device="cpu")[4]

    assert np.isnan(each.attention).all()
    assert np.isnan([each.tau_erasure, each.tau_gradient]).all()
    assert np.isfinite([each.erasure, each.gradient]).all()
    assert np.isfinite(each.tau_methods).all()


@pytest.mark.parametrize("largest", [1, 2, 9])
def test_tau_with_ties_is_that_of_scipy(largest):
    random = np.random.default_rng(largest)
    for size in range(2, 8):
        for _ in range(20):
            one, other = random.integers(0, largest, (2, size), endpoint=True).astype(float)
            expected = pytest.approx(kendalltau(one, other).statistic, nan_ok=True)
            assert kendall_tau(one, other) == expected


def test_magnitudes_are_correlated_and_differences_below_fp32_are_ties():
    attribution = Attribution(
        source_words=["a", "b", "c"],
        target_words=["x", "y"],
        attention=np.array([[0.1, 0.2, 0.7], [1 / 3, 1 / 3 + 1e-8, 1 / 3]]),
        erasure=np.array([[0.5, -2.0, -3.0], [1.0, 2.0, 3.0]]),
        gradient=np.array([[3.0, 2.0, -1.0], [1.0, -2.0, 3.0]]),
    )

    np.testing.assert_allclose(attribution.tau_erasure, [1, np.nan])
    np.testing.assert_allclose(attribution.tau_gradient, [-1, np.nan])
    np.testing.assert_allclose(attribution.tau_methods, [-1, 1])
