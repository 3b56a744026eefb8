import weakref
from functools import partial

import pytest
from tiny_service import (
    PanicError,
    Shouter,
    ShutShouter,
    load_shouter,
    make_serve_config,
    wait_until,
)
from tiny_translator import GREEDY

from seq2seq.search.config import BeamConfig, SamplingConfig
from seq2seq.serving.metrics import Metrics
from seq2seq.serving.models import LoadedModel, Models
from seq2seq.version import __version__


@pytest.fixture
def make_models():
    """Return a function that makes models, which are closed at the end."""
    made = []

    def make(*paths, load=load_shouter, max_waiting=50, metrics=None):
        config = make_serve_config(checkpoint=list(paths), max_waiting=max_waiting)
        made.append(Models(config, load=load, metrics=metrics or Metrics()))
        return made[-1]

    yield make
    for models in made:
        models.close()


def ask(models, pair, line="a"):
    [translation] = models.submit(models[pair], [line], GREEDY, timeout=10).result(10)
    return translation.text


def test_two_models_of_a_pair_are_refused(make_models):
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
            LoadedModel(("de", "fr"), Shouter("new"), str.split),
            "the models now translate de-en, de-fr, but the service started with de-en, en-de; "
            "restart the service",
        ),
        (LoadedModel(("en", "de"), fails, str.split), "weights are NaN"),
    ],
)
def test_after_a_reload_that_failed_all_old_models_answer_until_the_next_one(
    make_models, caplog, second, error
):
    def load(path):
        if state == "broken" and path == "en-de":
            if isinstance(second, BaseException):
                raise second
            return second
        return load_shouter(path, Shouter(state))

    def reload():
        models.reload()
        return [ask(models, pair) for pair in models.pairs]

    state, metrics = "old", Metrics()
    models = make_models("de-en", "en-de", load=load, metrics=metrics)
    state = "broken"
    after_failure = reload()
    state = "new"
    after_success = reload()

    assert (after_failure, after_success) == (["Aold", "Aold"], ["Anew", "Anew"])
    lines = [record.message for record in caplog.records]
    assert lines == [f"the models were not reloaded; the old ones stay in use: {error}"]
    for result in ("failure", "success"):
        assert f'seq2seq_reloads_total{{result="{result}"}} 1.0' in metrics.text().decode()


def test_a_model_that_was_chosen_before_a_reload_answers_after_it(make_models):
    marks = iter("12")
    models = make_models("de-en", load=lambda path: load_shouter(path, Shouter(next(marks))))
    chosen = models["de", "en"]

    models.reload()

    [old] = models.submit(chosen, ["a"], GREEDY, timeout=10).result(10)
    assert (old.text, ask(models, ("de", "en"))) == ("A1", "A2")


def test_a_model_that_no_request_needs_leaves_the_memory(make_models):
    loaded = []

    def load(path):
        model = Shouter()
        loaded.append(weakref.ref(model))
        return load_shouter(path, model)

    models = make_models("de-en", load=load)
    ask(models, ("de", "en"))

    models.reload()

    wait_until(lambda: loaded[0]() is None)  # the thread of the batcher may still hold it
    assert loaded[1]() is not None


def test_models_are_ready_while_one_of_them_has_room(make_models):
    shut = ShutShouter()
    models = make_models(
        "de-en", "en-de", load=partial(load_shouter, translate=shut), max_waiting=1
    )

    def are_ready_with_full(pair):
        number = len(shut.begun)
        models.submit(models[pair], ["b"], GREEDY, timeout=20)
        wait_until(lambda: len(shut.begun) > number)
        models.submit(models[pair], ["c"], GREEDY, timeout=20)
        return models.are_ready

    are_ready = [are_ready_with_full(pair) for pair in models.pairs]
    shut.open()
    models.close()

    assert are_ready == [True, False]
    assert not models.are_ready


def test_the_log_and_the_metrics_name_the_models_in_use(make_models, caplog):
    def load(path):
        return load_shouter(path)._replace(name="run", sha256=digest)

    caplog.set_level("INFO")
    digest, metrics = 64 * "1", Metrics()
    models = make_models("de-en", load=load, metrics=metrics)
    at_start = models.described
    digest = 64 * "2"
    models.reload()

    assert at_start == "de-en (model run, sha256 111111111111)"
    assert caplog.messages == ["reloaded de-en (model run, sha256 222222222222)"]
    infos = [e for e in metrics.text().decode().splitlines() if e.startswith("seq2seq_model_info{")]
    labels = f'name="run",pair="de-en",sha256="222222222222",version="{__version__}"'
    assert infos == [f"seq2seq_model_info{{{labels}}} 1.0"]


def test_a_model_of_several_languages_answers_for_each_pair(make_models):
    others = {("de", "fr"): Shouter("fr")}
    models = make_models("de-en", load=lambda path: load_shouter(path)._replace(others=others))

    assert models.pairs == [("de", "en"), ("de", "fr")]
    assert [ask(models, pair) for pair in models.pairs] == ["A", "Afr"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"decoding": SamplingConfig()}, "decoding=sampling: the service searches with"),
        ({"decoding": BeamConfig(n_best=2)}, "decoding.n_best=2: each request sets its"),
        ({"decoding": BeamConfig(beam_size=5)}, "beam_size=5 must be at most max_beam=4"),
        ({"engine": "onnx", "precision": "int8"}, "precision=int8 are keys of engine=torch"),
        ({"port": 65_536}, "port=65536 must be at least 0 and at most 65,535"),
        ({"timeout": 0.0}, "timeout=0.0 must be above 0"),
        ({"engine": "jax"}, "engine='jax' must be one of: torch, onnx"),
    ],
)
def test_a_wrong_value_is_refused(changes, message):
    with pytest.raises(ValueError, match=message):
        make_serve_config(**changes)
