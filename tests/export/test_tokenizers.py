from tiny_export import SENTENCES, make_exportable

from seq2seq.export.tokenizers import SubwordTokenizer


def test_tokenizer_is_that_of_the_checkpoint(exported):
    expected = make_exportable().tokenizers.source

    tokenizer = SubwordTokenizer(exported / "source.spm", expected.rules)

    rows = tokenizer.encode(SENTENCES)
    assert tokenizer.rules.normalizes
    assert len(tokenizer) == len(expected)
    assert rows == expected.encode(SENTENCES)
    assert [tokenizer.decode(row) for row in rows] == [expected.decode(row) for row in rows]
    assert [tokenizer.tokens(row) for row in rows] == [expected.tokens(row) for row in rows]
