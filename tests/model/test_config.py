import dataclasses

import pytest
from tiny_models import decoder_config


@pytest.mark.parametrize("form", ["bahdanau", "conditional"])
def test_input_feeding_needs_the_luong_form(form):
    message = rf"input_feeding=true needs model\.decoder\.form=luong, not {form}; set it to false"
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(decoder_config(form), input_feeding=True)


def test_heads_must_divide_the_state_only_with_self_attention():
    message = r"model\.decoder\.self_attention_heads=4 must divide model\.decoder\.hidden_size=6"
    off = dataclasses.replace(decoder_config(), self_attention_heads=4)

    with pytest.raises(ValueError, match=message):
        dataclasses.replace(off, self_attention=True)


def test_residual_connections_of_one_layer_are_an_error():
    message = r"model\.decoder\.residual=true connects layers, but .*num_layers=1; set"
    with pytest.raises(ValueError, match=message):
        decoder_config(residual=True)
    assert decoder_config(residual=True, num_layers=2).residual
