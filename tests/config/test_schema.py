import pytest

from seq2seq.config.schema import load_config

GUIDED = "training.guided_attention=0.5"


@pytest.mark.parametrize(
    ("train", "overrides", "languages"),
    [
        ("[my/a.de,my/a.en]", [], "de en"),
        ("[my/a.de.gz,my/a.zh-Hant.gz]", [], "de zh-Hant"),
        ("[a.tok.deu,a.tok.eng]", ["data.valid=[b.deu,b.eng]"], "deu eng"),
        ("[a.de,a.en]", ["data.valid=[b.src,b.tgt]", "data.test=[c.de,c.en]"], "de en"),
        ("[a.de,a.en]", ["data.valid=[b.de,b.fr]"], "de target"),
        ("[a.de,a.en]", ["data.valid=[b.de,b.en]", "data.test=[c.tsv]"], "de en"),
        ("[a.de,a.en]", ["data.source=gsw"], "gsw en"),
        ("{1: [a.de,a.en], 2: {files: [b.fr,b.en], tag: '<x>'}}", [], "source en"),
        ("[a.src,a.tgt]", [], "source target"),
        ("[a.txt,b.txt]", [], "source target"),
        ("[a.tsv]", [], "source target"),
        ("['a.${data.source}','a.en']", [], "source en"),
    ],
)
def test_endings_of_files_that_agree_are_the_languages(train, overrides, languages):
    base = ["data=files", f"data.train={train}", "data.valid=[b.tsv]"]
    config = load_config(*base, *overrides)

    assert [config.data.source, config.data.target] == languages.split()


def test_changes_of_a_loaded_configuration_do_not_reach_the_next_one():
    first = load_config()
    first.training.max_epochs = 77

    assert load_config().training.max_epochs != 77


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["run_name=''"], "^run_name='' must be the name of a directory"),
        (["run_name='..'"], "^run_name='..' must be"),
        (["run_name='a/b'"], "^run_name='a/b' must be"),
        (["run_name='a\nb'"], r"^run_name='a\\nb' must be"),
        (["attention.name=dot"], "^attention.name=dot does not match the chosen attention; remove"),
        (["data.name=multi30k"], "^data.name=multi30k does not match the chosen data; remove"),
        (["tokenizer.name=words"], "^tokenizer.name=words does not match the chosen tokenizer"),
        (["decoding.name=sampling"], "^decoding.name=sampling does not match the chosen decoding"),
        (["training.max_epochs=null"], "set training.max_epochs, training.max_updates or"),
    ],
)
def test_values_that_exclude_each_other_are_refused(overrides, message):
    with pytest.raises(ValueError, match=message):
        load_config(*overrides)
