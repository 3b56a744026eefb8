import torch
from tiny_models import tiny_batch

from seq2seq.data import Batch
from seq2seq.training.r_drop import repeat_rows


def test_rows_are_repeated_with_the_copies_last():
    batch = Batch(*tiny_batch((5, 3), (3, 4)), torch.arange(2))

    twice = repeat_rows(batch)

    assert twice.guide is None
    assert twice.indices.tolist() == [0, 1, 0, 1]
    for name in ("source_ids", "source_mask", "previous_ids", "target_ids", "target_mask"):
        first, second = getattr(twice, name).chunk(2)
        assert torch.equal(first, getattr(batch, name))
        assert torch.equal(second, getattr(batch, name))
    places = twice.target_mask.flatten().nonzero().squeeze(1)
    assert torch.equal(twice.target_places, places)
