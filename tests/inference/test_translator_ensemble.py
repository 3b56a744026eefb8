"""Several checkpoints as one translator."""

import pytest
import torch
from tiny_translator import TOKENIZERS, write_checkpoint

from seq2seq.checkpoints.checkpoint import load_checkpoint
from seq2seq.data.tokenizers.words import CharacterTokenizer
from seq2seq.inference.translator import Translator
from seq2seq.runtime.devices import Device
from seq2seq.special_tokens import BOS, EOS


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


def test_other_tokenizers_are_refused_with_both_names(runs, tmp_path):
    tokenizers = TOKENIZERS._replace(target=CharacterTokenizer("abcdefgh !"))
    other = write_checkpoint(tmp_path / "other", tokenizers=tokenizers)

    with pytest.raises(ValueError, match=r"other has other tokenizers than \S+first; only"):
        Translator.load([runs[0], other], device=Device.cpu)


def test_no_checkpoint_at_all_is_refused():
    with pytest.raises(ValueError, match="no checkpoint is given"):
        Translator.load([], device=Device.cpu)
