import pytest
from tiny_attention import VARIANTS
from tiny_models import tiny_batch, tiny_model

from seq2seq.inference import scoring
from seq2seq.inference.scoring import score_targets


def score_batch(model, batch):
    return score_targets(
        model.eval(),
        batch.source_ids,
        batch.source_mask,
        target_ids=batch.target_ids,
        target_mask=batch.target_mask,
    )


def test_probabilities_do_not_depend_on_how_many_are_held_at_once(monkeypatch):
    model = tiny_model(VARIANTS["dot"])
    at_once = score_batch(model, tiny_batch())

    monkeypatch.setattr(scoring, "_ROWS", 3)

    in_parts = score_batch(model, tiny_batch())
    for whole, part in zip(at_once, in_parts, strict=True):
        assert part.log_probability == pytest.approx(whole.log_probability, abs=1e-6)


def test_weights_do_not_keep_the_batch_in_memory():
    for scored in score_batch(tiny_model(VARIANTS["multihead"]), tiny_batch(extra=3)):
        stored = scored.attention_weights.untyped_storage().nbytes()
        assert stored == scored.attention_weights.numel() * scored.attention_weights.element_size()
