"""The formula for the operations of an update agrees with a count of its matrix products."""

import pytest
import torch
from tiny_training import SMALL, fits
from torch.utils.flop_counter import FlopCounterMode

from benchmarks.operations import count_operations
from seq2seq.config.schema import build_model, load_config
from seq2seq.data.batching import Batch
from seq2seq.runtime.kernels import Kernels
from seq2seq.runtime.kernels.operations import use_kernels
from seq2seq.training.losses import training_loss

NUM_SENTENCES, SOURCE_LENGTH, TARGET_LENGTH, VOCABULARY = 3, 6, 5, 40


@pytest.fixture
def batch():
    source_ids, target_ids = (
        torch.randint(4, VOCABULARY, (NUM_SENTENCES, length))
        for length in (SOURCE_LENGTH, TARGET_LENGTH)
    )
    masks = [torch.ones_like(ids, dtype=torch.bool) for ids in (source_ids, target_ids)]
    places = torch.arange(target_ids.numel())
    return Batch(source_ids, masks[0], target_ids, target_ids, masks[1], places, torch.arange(3))


@pytest.mark.parametrize("attention", ["none", "general", "multihead"])
def test_formula_agrees_with_counted_products(attention, batch):
    use_kernels(Kernels.plain)
    choice = [f"attention={attention}", "model.tied_embeddings=none"]
    config = load_config(*(each for each in SMALL if fits(each, choice)), *choice)
    sizes = {f"{side}_vocabulary_size": VOCABULARY for side in ("source", "target")}
    model = build_model(config, **sizes)

    with FlopCounterMode(display=False) as counter:
        training_loss(model, batch, config.training).objective.backward()

    counted = counter.get_total_flops() / batch.target_mask.sum()
    assert count_operations(model, batch) == pytest.approx(float(counted), rel=0.05)
