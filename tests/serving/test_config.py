import pytest
from tiny_service import make_serve_config

from seq2seq.search.config import BeamConfig, GreedyConfig, SamplingConfig


@pytest.mark.parametrize("decoding", [BeamConfig(beam_size=4), GreedyConfig()])
def test_beam_and_greedy_search_are_accepted(decoding):
    assert make_serve_config(decoding=decoding).decoding is decoding


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"decoding": SamplingConfig()}, "decoding=sampling: the service searches with"),
        ({"decoding": BeamConfig(n_best=2)}, "decoding.n_best=2: each request sets its"),
        ({"decoding": BeamConfig(beam_size=5)}, "beam_size=5 must be at most max_beam=4"),
        ({"engine": "onnx", "precision": "int8"}, "precision=int8 are keys of engine=torch"),
        ({"port": 65_536}, "port=65536 must be at least 0 and at most 65,535"),
        ({"timeout": 0.0}, "timeout=0.0 must be above 0"),
        ({"engine": "jax"}, "engine='jax' must be one of: torch, onnx"),
    ],
)
def test_a_wrong_value_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        make_serve_config(**changes)
