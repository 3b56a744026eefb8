import pytest
import torch
from tiny_attention import VARIANTS
from tiny_models import tiny_batch, tiny_model
from tiny_translator import BEAM, GREEDY, write_checkpoint

from seq2seq.inference.checkpoint import load_checkpoint
from seq2seq.inference.ensemble import Ensemble, join_models
from seq2seq.inference.scoring import score_targets
from seq2seq.inference.translator import Translator
from seq2seq.runtime.devices import Device
from seq2seq.search.config import SamplingConfig
from seq2seq.search.searches import search
from seq2seq.special_tokens import BOS, EOS

SAMPLING = SamplingConfig(
    max_length_ratio=1.0,
    max_length_offset=3,
    temperature=1.2,
    top_p=0.9,
    num_samples=3,
    n_best=2,
    seed=4,
)
DECODINGS = [GREEDY, BEAM, SAMPLING]
BATCH = tiny_batch()


def make_members():
    """Return models of different forms, attention types, sizes and weights."""
    members = [
        tiny_model(VARIANTS["additive"], "bahdanau"),
        tiny_model(VARIANTS["multihead"], "input_feeding", num_layers=2),
        tiny_model(VARIANTS["none"], "conditional", self_attention=True),
    ]
    members[2].decoder.output.weight.data *= -1
    for member in members:
        member.decoder.output.bias.data[EOS] += 2
    return [member.eval() for member in members]


def make_ensemble():
    return Ensemble(make_members()).eval()


def steps_of(model, previous_ids):
    memory, state = model.encode(BATCH.source_ids, BATCH.source_mask)
    return model.decoder.step(state, previous_ids, memory)


def test_a_step_averages_probabilities_and_concatenates_the_heads_of_the_members():
    ensemble, members = make_ensemble(), make_members()
    previous_ids = torch.tensor([7, 5, 9])

    step = steps_of(ensemble, previous_ids)

    expected = [steps_of(member, previous_ids) for member in members]
    mean = sum(each.logits.double().softmax(dim=-1) for each in expected) / 3
    torch.testing.assert_close(step.logits.double().exp(), mean, rtol=1e-5, atol=1e-7)
    weights = [each.attention_weights for each in expected]
    assert ensemble.attention.num_heads == step.attention_weights.shape[1] > weights[0].shape[1]
    torch.testing.assert_close(step.attention_weights, torch.cat(weights, dim=1))


def test_a_tiny_probability_does_not_become_0():
    members = make_members()
    for member in members:
        member.decoder.output.bias.data[5] = -300

    logits = steps_of(Ensemble(members).eval(), torch.tensor([7, 5, 9])).logits

    assert logits[:, 5].lt(-200).all()
    assert logits.isfinite().all()


def test_an_ensemble_of_one_is_the_model():
    model = make_members()[0]

    assert join_models([model]) is model


@pytest.mark.parametrize("decoding", DECODINGS, ids=lambda decoding: decoding.name)
def test_a_found_translation_scores_the_same_when_it_is_known(decoding):
    ensemble = make_ensemble()

    found = search(ensemble, *BATCH[:2], decoding)

    num_finished = 0
    for row, hypotheses in enumerate(found):
        for hypothesis in hypotheses:
            if not hypothesis.finished:
                continue
            num_finished += 1
            ids = torch.tensor([[*hypothesis.ids, EOS]])
            source = BATCH.row(row)[:2]
            [scored] = score_targets(ensemble, *source, target_ids=ids, target_mask=ids > 0)
            log_probability = pytest.approx(scored.log_probability, abs=1e-5)
            assert hypothesis.log_probability == log_probability
            torch.testing.assert_close(
                hypothesis.attention_weights, scored.attention_weights, rtol=0, atol=1e-6
            )
    assert num_finished > 0


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """Return two checkpoints with the same tokenizers, of other attention."""
    directory = tmp_path_factory.mktemp("checkpoints")
    return [
        write_checkpoint(directory / "first"),
        write_checkpoint(directory / "m\xfcller = 2", "multihead"),
    ]


def log_probability_by_hand(runs, source, target):
    """Return the log-probability of a line from what each run says of its tokens."""
    by_token = []
    for checkpoint in map(load_checkpoint, runs):
        model, tokenizers = checkpoint.build_model(), checkpoint.tokenizers
        ids = torch.tensor([[*tokenizers.source.encode([source])[0], EOS]])
        target_ids = torch.tensor([*tokenizers.target.encode([target])[0], EOS])
        output = model(ids, ids > 0, torch.tensor([[BOS, *target_ids[:-1]]]))
        probabilities = model.decoder.logits(output.readouts)[0].double().softmax(dim=-1)
        by_token.append(probabilities[torch.arange(len(target_ids)), target_ids])
    return torch.stack(by_token).mean(dim=0).log().sum().item()


def test_several_checkpoints_are_loaded_as_an_ensemble(runs):
    translator = Translator.load(runs, device=Device.cpu)

    [translation] = translator.score([("ein hund", "abc")])

    expected = log_probability_by_hand(runs, "ein hund", "abc")
    assert translator.num_heads == 1 + 4
    assert translation.hypotheses[0].log_probability == pytest.approx(expected, abs=1e-5)
