import dataclasses
import io

import pytest
from sentencepiece import SentencePieceTrainer
from tiny_translator import make_checkpoint

from seq2seq.checkpoints.checkpoint import save_checkpoint
from seq2seq.checkpoints.checkpoint_group import load_checkpoints
from seq2seq.data import (
    CharacterTokenizer,
    SentencePieceTokenizer,
    TokenizerPair,
    WordTokenizer,
)


@pytest.fixture(scope="module")
def whole():
    return make_checkpoint()


@pytest.fixture
def load(whole, tmp_path):
    """Return what loads a checkpoint for each of the tokenizers."""

    def load_all(*tokenizers):
        paths = []
        for index, (source, target) in enumerate(tokenizers):
            pair = TokenizerPair(source, target)
            paths.append(tmp_path / f"{index}.pt")
            save_checkpoint(paths[-1], dataclasses.replace(whole, tokenizers=pair))
        return load_checkpoints(paths)

    return load_all


def characters(text):
    return CharacterTokenizer(text)


def words(*listed, lowercase=False):
    return WordTokenizer(listed, tokenizer="basic_english", language="en", lowercase=lowercase)


def tokens(line):
    model = io.BytesIO()
    SentencePieceTrainer.train(
        sentence_iterator=iter([line]),
        model_writer=model,
        model_type="char",
        vocab_size=4 + len({*line}),
        hard_vocab_limit=False,
        minloglevel=2,
    )
    return SentencePieceTokenizer(model.getvalue())


@pytest.mark.parametrize(
    "make", [lambda: characters("abc"), lambda: words("a", "b"), lambda: tokens("abc d")]
)
def test_checkpoints_of_equal_tokenizers_come_in_their_order(make, load):
    found = load((make(), characters("ab")), (make(), characters("ab")))

    assert len(found) == 2
    assert [len(each.tokenizers.source) for each in found] == [len(make())] * 2


def test_one_tokenizer_of_both_sides_equals_two_that_are_the_same(load):
    joint = characters("abc")

    assert len(load((joint, joint), (characters("abc"), characters("abc")))) == 2


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (lambda: characters("abc"), lambda: characters("abd")),
        (lambda: characters("abc"), lambda: characters("acb")),
        (lambda: characters("abc"), lambda: words("a", "b", "c")),
        (lambda: words("a"), lambda: words("a", lowercase=True)),
        (lambda: tokens("abc d"), lambda: tokens("abx d")),
    ],
)
@pytest.mark.parametrize("side", [0, 1])
def test_any_other_tokenizer_is_refused(first, second, side, load):
    pairs = [[tokenizer(), characters("xy")] for tokenizer in (first, first, second)]

    with pytest.raises(ValueError, match=r"2\.pt has other tokenizers than checkpoint=\S*0\.pt;"):
        load(*(pair if side == 0 else pair[::-1] for pair in pairs))
