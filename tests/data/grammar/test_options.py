import pytest
from tiny_data import TOY_GRAMMAR, toy_grammar

from seq2seq.data.grammar.options import FormPart, Step, find_choices


def test_weight_of_a_rule_is_shared_by_the_weights_of_its_values() -> None:
    options = find_choices(toy_grammar())[0]

    # sg m, sg f, pl m, pl f of the first rule; the second rule
    assert [option.weight for option in options] == pytest.approx([1.0, 1.0, 0.5, 0.5, 1.0])


def test_steps_name_forms_phrases_and_groups_by_number() -> None:
    option = find_choices(toy_grammar())[0][0]

    german, english = option.sides
    assert german == (
        Step(phrase=0, parts=(), groups=()),
        Step(phrase=None, parts=(FormPart(word=0, column=0),), groups=(0,)),
        Step(phrase=None, parts=(FormPart(word=1, column=0),), groups=(1,)),
        Step(phrase=None, parts=(".",), groups=()),
    )
    assert english[2].parts == (FormPart(word=1, column=1),)
    assert option.num_groups == 2


@pytest.mark.parametrize(
    ("old", "new", "line", "message"),
    [
        ("| The Noun.number", "| The Noun", 7, "Noun.: no column of Noun fits for en"),
        ("* sg\n", "sg sg\n", 7, "two columns of Verb fit sg; name one more label"),
    ],
)
def test_missing_and_ambiguous_columns_are_refused(
    old: str, new: str, line: int, message: str
) -> None:
    assert TOY_GRAMMAR.count(old) >= 1

    with pytest.raises(ValueError, match=rf"^toy\.grammar:{line}: .*{message}"):
        find_choices(toy_grammar(TOY_GRAMMAR.replace(old, new, 1)))
