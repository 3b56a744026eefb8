import re
import urllib.error
from concurrent.futures import ThreadPoolExecutor

import pytest
from libretranslatepy import LibreTranslateAPI
from tiny_service import (
    KEYS,
    Shouter,
    ShutShouter,
    make_serve_config,
    running,
    wait_until,
)

from seq2seq.search.config import BeamConfig, GreedyConfig
from seq2seq.special_tokens import UNK
from seq2seq.version import __version__


@pytest.fixture(scope="module")
def live():
    with running(make_serve_config(checkpoint=["de-en", "en-de", "fr-en"])) as service:
        yield service


def in_detail(live, text, **fields):
    return live.ask("/v1/translate", {"text": text, "source": "de", "target": "en"} | fields)


def test_libretranslates_client_works(live):
    client = LibreTranslateAPI(f"http://127.0.0.1:{live.port}")

    assert client.translate("Das M\u00e4dchen & 1+1.", "de", "en") == "DAS M\u00c4DCHEN & 1+1."
    assert [(each["code"], each["targets"]) for each in client.languages()] == [
        ("de", ["en"]),
        ("en", ["de"]),
        ("fr", ["en"]),
    ]
    with pytest.raises(urllib.error.HTTPError, match="404"):
        client.detect("ja")


def test_a_text_gives_a_text_and_a_list_a_list_in_any_spelling_of_the_languages(live):
    assert live.translate("ja").content == {"translatedText": "JA"}
    assert live.translate(["ja", "", "nein"]).content == {"translatedText": ["JA", "", "NEIN"]}
    assert live.translate([]).content == {"translatedText": []}
    assert live.translate("ja", source="DE", target="en_GB").content == {"translatedText": "JA"}


@pytest.mark.parametrize(
    "text", ["", "Ja.", "\n", "Ja.\n", "\n\nJa. Nein.\r\n\r\nJa.\r", " \t\nJa.\n \n"]
)
def test_line_ends_and_blank_lines_are_kept(live, text):
    assert live.translate(text).content == {"translatedText": text.upper()}


def test_alternatives_follow_the_best_translation(live):
    answer = live.translate(["Ja. Nein.", ""], alternatives=2)

    assert answer.content == {
        "translatedText": ["JA. NEIN.", ""],
        "alternatives": [["JA.! NEIN.!", "JA.!! NEIN.!!"], []],
    }


def test_auto_is_the_only_source_of_a_target(live):
    english = {"confidence": 0.0, "language": "en"}
    assert live.translate("ja", source="auto", target="de").content == {
        "translatedText": "JA",
        "detectedLanguage": english,
    }
    assert live.translate(["a", "b"], source="auto", target="de").content == {
        "translatedText": ["A", "B"],
        "detectedLanguage": [english, english],
    }
    assert live.translate("ja", source="auto").status == 400  # German or French


def test_a_text_in_the_language_of_the_target_stays(live):
    text = "Ja. <b>&\r\n"

    assert live.translate(text, target="de").content == {"translatedText": text}
    assert live.translate([text], target="de", alternatives=1).content == {
        "translatedText": [text],
        "alternatives": [[]],
    }
    assert live.translate("x" * 301, target="de").status == 413
    assert live.translate("ja", source="xx", target="xx").status == 400
    assert in_detail(live, "ja", target="de").content["translations"] == [
        {"text": "ja", "sentences": []}
    ]


def test_tags_are_text_and_another_format_is_refused_with_the_way_out(live):
    assert live.translate("<b>ja</b>").content == {"translatedText": "<B>JA</B>"}
    assert live.translate("ja", format="").status == 200
    message = "format: Input should be 'text' or ''"
    refused = live.translate("<b>ja</b>", format="html")
    assert (refused.status, refused.content) == (400, {"error": message})


def test_details_have_tokens_scores_and_attention(live):
    answer = in_detail(live, ["Ja. Nein.", ""], n_best=2, attention=True)

    first, empty = answer.content["translations"]
    assert (answer.content["source"], answer.content["target"]) == ("de", "en")
    assert empty == {"text": "", "sentences": []}
    assert first["text"] == "JA. NEIN."
    ja, nein = first["sentences"]
    assert (ja["source"], nein["source"]) == ("Ja.", "Nein.")
    assert ja["source_tokens"] == ["\u2581a", "</s>"]
    assert ja["unknown_tokens"] == 0
    assert [found["text"] for found in ja["hypotheses"]] == ["JA.", "JA.!"]
    assert ja["hypotheses"][1] == {
        "text": "JA.!",
        "score": -1.5,
        "log_probability": -2.0,
        "finished": True,
        "tokens": ["\u2581A", "</s>"],
        "token_log_probabilities": [-0.25, -0.75],
        "attention": [[[0.75, 0.25], [0.12344, 0.87656]]],
    }
    [plain] = in_detail(live, "ja").content["translations"][0]["sentences"][0]["hypotheses"]
    assert "attention" not in plain


LIMITS = "n_best must be at most beam, and beam and n_best at most 10, alternatives less"


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"beam": 11}, LIMITS),
        ({"beam": 0}, "beam: Input should be greater than or equal to 1"),
        ({"n_best": 11}, LIMITS),
        ({"n_best": 3, "beam": 2}, LIMITS),
        ({"attention": 1}, "attention: Input should be a valid boolean"),
        ({"nbest": 2}, "nbest: Extra inputs are not permitted"),
    ],
)
def test_a_wrong_detail_is_refused(live, fields, message):
    answer = in_detail(live, "ja", **fields)

    assert (answer.status, answer.content) == (400, {"error": message})


def test_too_much_attention_is_refused(monkeypatch, live):
    monkeypatch.setattr("seq2seq.serving.app._MOST_WEIGHTS", 7)

    assert in_detail(live, "ja", attention=True).status == 200
    assert in_detail(live, "Ja. Nein.", attention=True).status == 413
    assert in_detail(live, "Ja. Nein.").status == 200


@pytest.mark.parametrize("decoding", [BeamConfig(beam_size=2, length_penalty=0.5), GreedyConfig()])
def test_a_request_chooses_the_beam_and_keeps_the_other_settings(decoding):
    used = []

    def translate(lines, decoding):
        used.append(decoding)
        return Shouter()(lines, decoding)

    with running(make_serve_config(decoding=decoding), translate=translate) as live:
        used.clear()
        live.translate("ja")
        live.translate("ja", alternatives=3)
        in_detail(live, "ja", beam=1)
        in_detail(live, "ja", beam=3, n_best=2)

    penalty = getattr(decoding, "length_penalty", 1.0)
    assert used == [
        decoding,
        BeamConfig(beam_size=4, n_best=4, length_penalty=penalty),
        GreedyConfig(),
        BeamConfig(beam_size=3, n_best=2, length_penalty=penalty),
    ]


def test_languages_and_settings_are_libretranslates(live):
    assert live.ask("/languages").content[0] == {"code": "de", "name": "German", "targets": ["en"]}
    settings = live.ask("/frontend/settings").content
    assert settings["charLimit"] == 300
    assert settings["keyRequired"] is False
    assert settings["filesTranslation"] is False
    assert settings["language"]["target"] == {"code": "en", "name": "English"}
    assert live.ask("/health").content == {"status": "ok"}
    assert live.ask("/health/").status == 404


def test_a_full_queue_is_answered_by_503_and_is_not_ready():
    shut = ShutShouter()
    config = make_serve_config(max_waiting=2)
    with running(config, translate=shut) as live, ThreadPoolExecutor(3) as pool:
        assert live.ask("/ready").status == 200
        pool.submit(live.translate, "x")
        wait_until(lambda: shut.begun)
        pool.map(live.translate, "yz")
        wait_until(lambda: live.num_waiting == 2)
        refused, ready, healthy = live.translate("ja"), live.ask("/ready"), live.ask("/health")
        shut.open()

    assert (refused.status, refused.headers["Retry-After"]) == (503, "1")
    assert refused.content == {"error": "too many requests wait"}
    assert ready.status == 503
    assert healthy.status == 200


def test_a_slow_translation_is_answered_by_504():
    shut = ShutShouter()
    with running(make_serve_config(timeout=0.05), translate=shut) as live:
        answer = live.translate("ja")
        shut.open()

    assert answer.status == 504
    assert answer.content == {"error": "the translation took too long"}


def test_a_failing_translation_is_answered_without_its_reason(caplog):
    def fail(lines):
        if "bad" in lines:
            raise RuntimeError("/home/secret")

    with running(translate=Shouter(before=fail)) as live:
        answer = live.translate(["ja", "bad"])
        other = live.translate("ja")

    assert (answer.status, answer.content) == (500, {"error": "the service failed"})
    assert other.content == {"translatedText": "JA"}
    assert "/home/secret" in caplog.text


def test_unknown_paths_and_methods_are_answered_in_json(live):
    assert live.ask("/../../etc/passwd").content == {"error": "Not Found"}
    answer = live.ask("/translate")
    assert (answer.status, answer.content) == (405, {"error": "Method Not Allowed"})


def test_a_key_is_needed_where_keys_are_given():
    with running(read_keys=lambda: KEYS) as live:
        assert live.ask("/frontend/settings").content["keyRequired"] is True
        assert live.ask("/languages").status == 200
        wrong = [{}, *({"api_key": key} for key in ("", None, KEYS[0][:-1]))]
        answers = [live.translate("ja", **fields) for fields in wrong]
        answers.append(in_detail(live, "ja"))
        assert {(each.status, each.content["error"]) for each in answers} == {
            (403, "the API key is missing or wrong")
        }
        for key in KEYS:
            assert live.translate("ja", api_key=key).status == 200
            assert in_detail(live, "ja", api_key=key).status == 200
        fields = {"q": "ja", "source": "de", "target": "en"}
        authorized = live.ask("/translate", fields, Authorization=f"Bearer {KEYS[1]}")
        assert authorized.status == 200
        assert live.translate("ja", api_key=[KEYS[0]]).status == 400
        client = LibreTranslateAPI(f"http://127.0.0.1:{live.port}", api_key=KEYS[0])
        assert client.translate("ja", "de", "en") == "JA"


def test_a_reload_reads_the_keys_again(caplog):
    keys = [KEYS[0]]

    def read():
        if not keys:
            raise ValueError("api_keys=k has no key")
        return list(keys)

    with running(read_keys=read) as live:
        keys[:] = [KEYS[1]]
        live.service.reload()
        assert [live.translate("ja", api_key=key).status for key in KEYS[:2]] == [403, 200]
        keys.clear()
        live.service.reload()
        assert live.translate("ja", api_key=KEYS[1]).status == 200

    assert "the old ones stay in use: api_keys=k has no key" in caplog.text


def test_the_page_runs_its_own_script_only(live):
    answer = live.ask("/")

    page = answer.content.decode()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    assert answer.headers["Content-Type"] == "text/html; charset=utf-8"
    assert answer.headers["Content-Security-Policy"] == "frame-ancestors 'none'"
    assert policy.split("; ")[0] == "default-src 'none'"
    assert "unsafe" not in policy
    assert "://" not in page
    assert not re.search(r"<[^>]* (on\w+|style)=", page)


def test_the_description_has_every_path_and_the_fields_of_bodies_and_answers(live):
    description = live.ask("/openapi.json").content

    paths, schemas = description["paths"], description["components"]["schemas"]
    assert paths.keys() == {
        *("/health", "/ready", "/metrics", "/languages", "/frontend/settings"),
        *("/translate", "/v1/translate"),
    }
    bodies = paths["/translate"]["post"]["requestBody"]["content"]
    form = bodies["multipart/form-data"]["schema"]
    assert form == bodies["application/json"]["schema"]
    assert set(form["required"]) == {"q", "source", "target"}
    answer = paths["/v1/translate"]["post"]["responses"]["200"]["content"]["application/json"]
    assert answer["schema"]["$ref"] == "#/components/schemas/DetailAnswer"
    assert "token_log_probabilities" in schemas["Hypothesis"]["properties"]


def test_requests_are_counted_by_path_and_status():
    def fail(lines):
        assert "bad" not in lines

    names = [
        f'seq2seq_requests_total{{path="{path}",status="{status}"}}'
        for path, status in [("/health", 200), ("/translate", 500), ("other", 404)]
    ]
    with running(translate=Shouter(before=fail)) as live:

        def ask():
            for path in ("/health", "/health?q=secret", "/x1"):
                live.ask(path)
            live.translate("bad")
            return [live.metric(name) for name in names]

        before, after = ask(), ask()

    assert [late - early for early, late in zip(before, after, strict=True)] == [2, 1, 1]


def test_models_and_what_their_translations_lack_are_in_the_metrics():
    def translate(lines, decoding):
        [line] = Shouter()(lines, decoding)
        [found] = line.sentences
        cut = [h._replace(text=h.text.replace("7", ""), finished=False) for h in found.hypotheses]
        found = found._replace(source_ids=[UNK, 4, UNK], hypotheses=cut)
        return [line._replace(sentences=[found])]

    names = [
        f'seq2seq_{name}_total{{pair="de-cs"}}'
        for name in ("unknown_tokens", "lost_spans", "length_limits")
    ]
    labels = f'name="de-cs",pair="de-cs",sha256="aaaaaaaaaaaa",version="{__version__}"'
    with running(make_serve_config(checkpoint=["de-cs"]), translate=translate) as live:
        assert [live.metric(name) for name in names] == [0, 0, 0]
        live.translate("ab 7", target="cs")
        assert [live.metric(name) for name in names] == [2, 1, 1]
        assert live.metric(f"seq2seq_model_info{{{labels}}}") == 1
