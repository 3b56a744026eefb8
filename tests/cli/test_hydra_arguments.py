import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser

from seq2seq.cli.hydra_arguments import multirun_first, quote_plain_values, refuse_sweep


def values(*arguments, **keys):
    parser = OverridesParser.create()
    return [parser.parse_override(each).value() for each in quote_plain_values(arguments, **keys)]


def test_paths_and_text_are_taken_literally():
    found = values("text=ja, $x", "checkpoint=r\xe4f, 1.pt", "input=[a b.de,c=d.de]", "output=null")

    assert found == ["ja, $x", ["r\xe4f, 1.pt"], ["a b.de", "c=d.de"], None]


def test_the_command_chooses_which_keys_are_paths():
    found = values(
        "reference=r\xe4f, 1.en",
        "hypotheses=[a b.en,c=d.en]",
        "output=[x]",
        lists=("hypotheses", "reference"),
        paths=("output",),
    )

    assert found == [["r\xe4f, 1.en"], ["a b.en", "c=d.en"], "[x]"]


def test_the_option_of_a_sweep_may_stand_anywhere():
    assert multirun_first(["a=1", "--multirun", "b=2"]) == ["--multirun", "a=1", "b=2"]
    assert multirun_first(["b=1", "a=2", "--cfg", "job"]) == ["b=1", "a=2", "--cfg", "job"]


@pytest.mark.parametrize("option", ["-m", "--multirun", "hydra.mode=MULTIRUN"])
def test_a_command_without_sweeps_refuses_their_options(option):
    with pytest.raises(ValueError, match=f"^{option}: only train.py sweeps"):
        refuse_sweep(["text=-m", option])


def test_a_text_may_name_the_option_of_a_sweep():
    refuse_sweep(["text=-m"])
