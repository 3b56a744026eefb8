import pytest
import torch
from tiny_attention import attention_config
from tiny_models import tiny_batch, tiny_model
from torch.testing import assert_close

from seq2seq.model.bridge import Bridge

# B=3, S=5, H=6
every_bridge = pytest.mark.parametrize("bridge", Bridge)


@pytest.mark.parametrize("num_layers", [1, 2])
def test_projection_bridge_reads_the_last_state_of_each_direction(num_layers):
    model, batch = tiny_model(attention_config("additive"), num_layers=num_layers), tiny_batch()

    _, state = model.encode(batch.source_ids, batch.source_mask)

    _, last = model.encoder(batch.source_ids, batch.source_mask)
    projected = model.bridge.projection(last).tanh()
    assert_close(torch.cat(state.hidden, dim=1), projected)


@pytest.mark.parametrize("num_layers", [1, 2])
def test_mean_bridge_reads_the_mean_of_the_real_states(num_layers):
    model = tiny_model(attention_config("additive"), num_layers=num_layers, bridge=Bridge.mean)
    batch = tiny_batch()

    _, state = model.encode(batch.source_ids, batch.source_mask)

    states, _ = model.encoder(batch.source_ids, batch.source_mask)
    lengths = batch.source_mask.sum(1).tolist()
    means = [row[:length].mean(0) for row, length in zip(states, lengths, strict=True)]
    assert_close(torch.cat(state.hidden, dim=1), model.bridge.projection(torch.stack(means)).tanh())


def test_zero_bridge_starts_from_zeros_without_parameters():
    model = tiny_model(attention_config("additive"), num_layers=2, bridge=Bridge.zero)
    batch = tiny_batch()

    _, state = model.encode(batch.source_ids, batch.source_mask)

    assert torch.equal(torch.stack(state.hidden), torch.zeros(2, 3, 6).double())
    assert list(model.bridge.parameters()) == []


@every_bridge
def test_bridge_of_an_empty_source_is_finite(bridge):
    model = tiny_model(attention_config("additive"), bridge=bridge)

    _, state = model.encode(torch.zeros(2, 3).long(), torch.zeros(2, 3).bool())

    assert state.hidden[0].isfinite().all()


@every_bridge
def test_padding_does_not_change_the_bridge(bridge):
    model = tiny_model(attention_config("additive"), num_layers=2, bridge=bridge)
    narrow, wide = tiny_batch(), tiny_batch(extra=4)

    _, state = model.encode(narrow.source_ids, narrow.source_mask)
    _, wide_state = model.encode(wide.source_ids, wide.source_mask)

    assert_close(wide_state, state)
