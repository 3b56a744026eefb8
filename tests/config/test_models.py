import pytest

from seq2seq.config.models import build_model, check_model
from seq2seq.config.schema import load_config

GUIDED = "training.guided_attention.weight=0.5"


def test_the_model_has_the_sizes_of_configuration_and_vocabularies():
    config = load_config("attention=dot")

    model = build_model(config, source_vocabulary_size=5, target_vocabulary_size=7)

    assert model.encoder.embedding.num_embeddings == 5
    assert model.decoder.embedding.num_embeddings == 7
    assert model.attention.context_size == model.encoder.states_size
    assert model.decoder.output.out_features == 7
    assert model.training


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["attention=dot", "model.decoder.hidden_size=10"], "^attention=dot: query size 10 "),
        (["attention=none", "model.bridge=zero"], "^model.bridge=zero with attention=none would "),
        (
            ["attention=none", "decoding=beam", "decoding.coverage_penalty=0.2"],
            r"^decoding\.coverage_penalty=0\.2 needs attention",
        ),
        (
            ["attention=none", GUIDED],
            r"^training\.guided_attention\.weight=0\.5 needs attention that .* attention=none ",
        ),
        (
            ["attention=uniform", GUIDED],
            r"^training\.guided_attention\.weight=0\.5 needs attention that .* attention=uniform ",
        ),
        (
            ["attention=none", "training.coverage_loss=1"],
            r"^training\.coverage_loss=1\.0 needs attention that .* attention=none does not; .*"
            r" or training\.coverage_loss=0$",
        ),
        (
            ["attention=uniform", "training.coverage_loss=1"],
            r"^training\.coverage_loss=1\.0 needs attention that .* attention=uniform ",
        ),
    ],
)
def test_parts_that_do_not_fit_together_are_refused(overrides, message):
    config = load_config(*overrides)

    with pytest.raises(ValueError, match=message):
        check_model(config)


@pytest.mark.parametrize("name", ["dot", "gaussian"])
def test_attention_that_learns_its_weights_can_be_guided(name):
    check_model(load_config(f"attention={name}", GUIDED))


@pytest.mark.parametrize("name", ["none", "uniform"])
def test_attention_without_learned_weights_is_accepted_without_guidance(name):
    check_model(load_config(f"attention={name}"))
