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


@pytest.mark.parametrize(
    "field",
    ["embedding_size", "hidden_size", "num_layers", "readout_size", "self_attention_heads"],
)
def test_size_below_one_is_an_error(field):
    with pytest.raises(ValueError, match=rf"model\.decoder\.{field}=0 must be at least 1"):
        dataclasses.replace(decoder_config(), **{field: 0})


@pytest.mark.parametrize(
    "field", ["word_dropout", "embedding_dropout", "hidden_dropout", "readout_dropout"]
)
def test_dropout_out_of_range_is_an_error(field):
    with pytest.raises(ValueError, match=rf"model\.decoder\.{field}=1\.0 must lie in \[0, 1\)"):
        dataclasses.replace(decoder_config(), **{field: 1.0})


def test_residual_connections_of_one_layer_are_an_error():
    message = r"model\.decoder\.residual=true connects layers, but .*num_layers=1; set"
    with pytest.raises(ValueError, match=message):
        decoder_config(residual=True)
    assert decoder_config(residual=True, num_layers=2).residual
