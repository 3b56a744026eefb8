import threading

import pytest
from tiny_service import Shouter, load_shouter, make_serve_config
from tiny_translator import GREEDY

from seq2seq.serving.metrics import Metrics
from seq2seq.serving.models import LoadedModel, Models


@pytest.fixture
def make_models():
    """Return a function that makes models, which are closed at the end."""
    made = []

    def make(*paths, load=load_shouter, max_waiting=50):
        config = make_serve_config(checkpoint=list(paths), max_waiting=max_waiting)
        made.append(Models(config, load=load, metrics=Metrics()))
        return made[-1]

    yield make
    for models in made:
        models.close()


def ask(models, pair, line="a"):
    [translation] = models.submit(models[pair], [line], GREEDY, timeout=10).result(10)
    return translation.text


def test_each_pair_has_its_model(make_models):
    models = make_models("de-en", "en-de")

    assert models.pairs == [("de", "en"), ("en", "de")]
    assert ask(models, ("en", "de"), "ja") == "JA"
    assert models.are_ready
    assert models.num_waiting == 0


def test_two_models_of_a_pair_are_refused(make_models):
    with pytest.raises(ValueError, match="checkpoint=de-en translates de-en, as another one does"):
        make_models("de-en", "de-en")


def test_a_reload_replaces_all_models(make_models):
    marks = iter("1234")
    models = make_models(
        "de-en",
        "en-de",
        load=lambda path: load_shouter(path)._replace(translate=Shouter(next(marks))),
    )
    before = [ask(models, pair) for pair in models.pairs]

    models.reload()

    assert before == ["A1", "A2"]
    assert [ask(models, pair) for pair in models.pairs] == ["A3", "A4"]


def fails(lines, decoding):
    raise RuntimeError("weights are NaN")


@pytest.mark.parametrize(
    ("second", "error"),
    [
        (OSError("no such file"), "no such file"),
        (ValueError("not a checkpoint"), "not a checkpoint"),
        (
            LoadedModel(("de", "fr"), Shouter("new"), str.split),
            "the service started with de-en, en-",
        ),
        (LoadedModel(("en", "de"), fails, str.split), "weights are NaN"),
    ],
)
def test_after_a_reload_that_failed_all_old_models_answer(make_models, caplog, second, error):
    is_new = False

    def load(path):
        if is_new and path == "en-de":
            if isinstance(second, Exception):
                raise second
            return second
        return load_shouter(path)._replace(translate=Shouter("new" if is_new else "old"))

    models = make_models("de-en", "en-de", load=load)
    is_new = True

    models.reload()

    assert error in caplog.text
    assert [ask(models, pair) for pair in models.pairs] == ["Aold", "Aold"]


def test_a_model_that_was_chosen_before_a_reload_answers_after_it(make_models):
    marks = iter("12")
    models = make_models(
        "de-en", load=lambda path: load_shouter(path)._replace(translate=Shouter(next(marks)))
    )
    chosen = models["de", "en"]

    models.reload()

    [old] = models.submit(chosen, ["a"], GREEDY, timeout=10).result(10)
    assert (old.text, ask(models, ("de", "en"))) == ("A1", "A2")


def test_models_are_ready_while_one_of_them_has_room(make_models):
    gate, entered = threading.Event(), threading.Semaphore(0)

    def wait(lines):
        if lines != ["a"]:  # the first translation of a model
            entered.release()
            assert gate.wait(20)

    models = make_models(
        "de-en",
        "en-de",
        load=lambda path: load_shouter(path)._replace(translate=Shouter(before=wait)),
        max_waiting=1,
    )
    are_ready = []
    for pair in models.pairs:
        models.submit(models[pair], ["b"], GREEDY, timeout=20)
        assert entered.acquire(timeout=20)
        models.submit(models[pair], ["c"], GREEDY, timeout=20)
        are_ready.append(models.are_ready)
    gate.set()

    assert are_ready == [True, False]


def test_closed_models_are_not_ready(make_models):
    models = make_models("de-en")

    models.close()

    assert not models.are_ready
