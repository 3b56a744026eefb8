import dataclasses

import pytest
from tiny_models import model_config

from seq2seq.model.config import DecoderConfig, EncoderConfig


@pytest.mark.parametrize("form", ["bahdanau", "conditional"])
def test_input_feeding_needs_the_luong_form(form):
    message = rf"^model\.input_feeding=true needs model\.form=luong, not {form}; set it to false"
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(model_config("input_feeding"), form=form)


@pytest.mark.parametrize(("size", "num_heads"), [(256, 4), (6, 2), (7, 1)])
def test_heads_of_the_self_attention_divide_the_state(size, num_heads):
    assert DecoderConfig(hidden_size=size).self_attention_heads == num_heads
    assert EncoderConfig(hidden_size=size).self_attention_heads == min(2 * num_heads, 4)
