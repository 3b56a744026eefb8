"""`import seq2seq` offers a few names, and loads none of them before it is used."""

import math
import subprocess
import sys

import pytest

import seq2seq
from seq2seq import Pair, batch_gradients, build_model, load_config, make_batch, train_tokenizers


def test_all_names_are_loaded_from_their_modules():
    assert dir(seq2seq) == seq2seq.__all__
    for name in set(seq2seq.__all__) - {"__version__"}:
        assert callable(getattr(seq2seq, name))


def test_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="No seq2seq attribute Translater"):
        _ = seq2seq.Translater


def test_import_loads_nothing_slow():
    code = "import seq2seq, sys; sys.exit('torch' in sys.modules or 'hydra' in sys.modules)"

    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_one_batch_from_pairs_to_gradient_and_attention_needs_public_names_only():
    config = load_config("attention=dot", "tokenizer=characters", "training.label_smoothing=0")
    pairs = [Pair("ein Hund", "a dog"), Pair("eine Katze", "a cat")]
    source, target = train_tokenizers(config.tokenizer, pairs)
    batch = make_batch(
        source.encode([pair.source for pair in pairs]),
        target.encode([pair.target for pair in pairs]),
    )
    model = build_model(
        config, source_vocabulary_size=len(source), target_vocabulary_size=len(target)
    )

    loss, gradients = batch_gradients(config, model=model, batch=batch)
    weights = model(batch.source_ids, batch.source_mask, batch.previous_ids).attention_weights

    assert loss == pytest.approx(math.log(len(target)), abs=0.5)
    assert gradients.keys() == dict(model.named_parameters()).keys()
    assert weights.shape == (2, 1, 6, 11)
    assert not weights[0, :, :, 9:].any()
