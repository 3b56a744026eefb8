import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from seq2seq.cli.hydra_arguments import check_beside_hypotheses, has_hypotheses, quote_plain_values


def values(*arguments):
    parser = OverridesParser.create()
    return [parser.parse_override(each).value() for each in quote_plain_values(arguments)]


@pytest.mark.parametrize(
    ("argument", "has"),
    [
        ("hypotheses=a.en", True),
        ("hypotheses=[]", True),
        ("text=hypotheses=a.en", False),
        ("reference=a.en", False),
    ],
)
def test_hypotheses_are_found_by_their_key(argument, has):
    assert has_hypotheses(["output=x", argument]) is has


def test_hypotheses_and_their_references_are_lists():
    found = values("reference=r\xe4f, 1.en", "hypotheses=[a b.en,c=d.en]", "output=[x]")

    assert found == [["r\xe4f, 1.en"], ["a b.en", "c=d.en"], "[x]"]


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("text=ja", "text= has no place beside hypotheses="),
        ("+text=ja", "text= has no place beside hypotheses="),
        ("decoding.beam_size=3", "decoding.beam_size= has no place beside hypotheses="),
        ("+other=1", "unknown key 'other'"),
    ],
)
def test_what_takes_a_model_has_no_place_beside_hypotheses(argument, message):
    arguments = ["hypotheses=a.en", argument]

    with pytest.raises(ValueError, match=message):
        check_beside_hypotheses(
            arguments, known=["hypotheses"], translating=["text", "decoding", "hydra"]
        )


@pytest.mark.parametrize("argument", ["output=x", "hydra.run.dir=x", "+hydra.x=1", "-m", "tex=x"])
def test_other_arguments_are_left_to_hydra(argument):
    check_beside_hypotheses([argument], known=["output"], translating=["text", "output", "hydra"])
