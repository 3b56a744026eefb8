from seq2seq.special_tokens import BOS, EOS, PAD, SPECIAL_TOKENS, UNK


def test_each_label_has_the_index_of_its_id():
    labels = {PAD: "<pad>", UNK: "<unk>", BOS: "<s>", EOS: "</s>"}

    assert dict(enumerate(SPECIAL_TOKENS)) == labels
