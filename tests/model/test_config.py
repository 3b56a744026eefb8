import dataclasses

import pytest
from tiny_models import decoder_config, encoder_config


@pytest.mark.parametrize("form", ["bahdanau", "conditional"])
def test_input_feeding_needs_the_luong_form(form):
    message = rf"input_feeding=true needs model\.decoder\.form=luong, not {form}; set it to false"
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(decoder_config(form), input_feeding=True)


@pytest.mark.parametrize(
    ("configure", "size"),
    [
        (decoder_config, r"model\.decoder\.hidden_size=6"),
        (encoder_config, r"2 \* model\.encoder\.hidden_size=10"),
    ],
)
def test_heads_must_divide_the_state_only_with_self_attention(configure, size):
    off = dataclasses.replace(configure(), self_attention_heads=4)

    with pytest.raises(ValueError, match=rf"self_attention_heads=4 must divide {size}"):
        dataclasses.replace(off, self_attention=True)


@pytest.mark.parametrize(
    ("configure", "section"), [(decoder_config, "decoder"), (encoder_config, "encoder")]
)
def test_residual_connections_of_one_layer_are_an_error(configure, section):
    message = rf"model\.{section}\.residual=true connects layers, but .*num_layers=1; set"
    with pytest.raises(ValueError, match=message):
        configure(residual=True)
    assert configure(residual=True, num_layers=2).residual
