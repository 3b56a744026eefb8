import weakref

import pytest
from tiny_service import PanicError, Shouter, load_shouter, make_serve_config
from tiny_translator import GREEDY

from seq2seq.search.config import SamplingConfig
from seq2seq.serving.models import Model, Models


def make_models(*paths, load=load_shouter):
    return Models(make_serve_config(checkpoint=list(paths)), load)


def ask(models, pair):
    [translation] = models[pair].translate(["a"], GREEDY)
    return translation.text


def test_two_models_of_a_pair_are_refused():
    with pytest.raises(ValueError, match="checkpoint=de-en translates de-en, as another"):
        make_models("de-en", "de-en")


def fails(lines, decoding):
    raise RuntimeError("weights are NaN")


@pytest.mark.parametrize(
    ("second", "error"),
    [
        (OSError("no such file"), "no such file"),
        (PanicError("no\n session"), "no session"),
        (StopIteration(), "StopIteration"),
        (
            {("de", "fr"): Model(Shouter("new"))},
            "the models now translate de-en, de-fr, but the service started with de-en, en-de; "
            "restart the service",
        ),
        ({("en", "de"): Model(fails)}, "weights are NaN"),
    ],
)
def test_after_a_reload_that_failed_all_old_models_answer_until_the_next_one(caplog, second, error):
    def load(path):
        if state == "broken" and path == "en-de":
            if isinstance(second, BaseException):
                raise second
            return second
        return load_shouter(path, Shouter(state))

    def reload():
        models.reload()
        return [ask(models, pair) for pair in models.pairs]

    state = "old"
    models = make_models("de-en", "en-de", load=load)
    state = "broken"
    after_failure = reload()
    state = "new"
    after_success = reload()

    assert (after_failure, after_success) == (["Aold", "Aold"], ["Anew", "Anew"])
    lines = [record.message for record in caplog.records]
    assert lines == [f"the models were not reloaded; the old ones stay in use: {error}"]


def test_a_model_that_was_chosen_before_a_reload_can_be_used_after_it():
    marks = iter("12")
    models = make_models("de-en", load=lambda path: load_shouter(path, Shouter(next(marks))))
    chosen = models["de", "en"]

    models.reload()

    [old] = chosen.translate(["a"], GREEDY)
    assert (old.text, ask(models, ("de", "en"))) == ("A1", "A2")


def test_a_model_that_no_request_needs_leaves_the_memory():
    loaded = []

    def load(path):
        model = Shouter()
        loaded.append(weakref.ref(model))
        return load_shouter(path, model)

    models = make_models("de-en", load=load)
    models.reload()

    assert loaded[0]() is None
    assert loaded[1]() is models["de", "en"].translate.args[1]


def test_the_log_names_the_models_in_use(caplog):
    caplog.set_level("INFO")
    digest = 64 * "1"
    models = make_models("de-en", load=lambda path: load_shouter(path, sha256=digest))
    at_start = str(models)
    digest = 64 * "2"
    models.reload()

    assert at_start == "de-en (model de-en, sha256 111111111111)"
    assert caplog.messages == ["reloaded de-en (model de-en, sha256 222222222222)"]


def test_a_model_of_several_languages_answers_for_each_pair():
    french = {("de", "fr"): Model(Shouter("fr"))}
    models = make_models("de-en", load=lambda path: load_shouter(path) | french)

    assert models.pairs == [("de", "en"), ("de", "fr")]
    assert [ask(models, pair) for pair in models.pairs] == ["A", "Afr"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"decoding": SamplingConfig()}, "decoding=sampling: the service searches with"),
        ({"port": 65_536}, "port=65536 must be at least 0 and at most 65,535"),
        ({"timeout": 0.0}, "timeout=0.0 must be above 0"),
        ({"device": "tpu"}, "device='tpu' must be one of: auto, cpu, cuda"),
    ],
)
def test_a_wrong_value_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        make_serve_config(**changes)
