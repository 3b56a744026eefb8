from tiny_service import Shouter, running

from seq2seq.special_tokens import UNK


def values(text):
    """Return the value of each measure."""
    lines = [line for line in text.decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


def test_what_translations_lack_is_counted():
    def translate(lines, decoding):
        found = Shouter()(lines, decoding)
        cut = [
            h._replace(text=h.text.replace("7", ""), finished=False) for h in found[0].hypotheses
        ]
        return [found[0]._replace(source_ids=[UNK, 4, UNK], hypotheses=cut), *found[1:]]

    with running(translate=translate) as live:
        before = values(live.ask("/metrics").content)
        live.translate("ab 7\ncd 8")
        found = values(live.ask("/metrics").content)

    expected = {"unknown_tokens": 2, "lost_spans": 1, "length_limits": 1}
    names = {f'seq2seq_{name}_total{{pair="de-en"}}': value for name, value in expected.items()}
    assert {name: before[name] for name in names} == dict.fromkeys(names, 0)
    assert {name: found[name] for name in names} == names


def test_each_request_is_counted_by_path_and_status():
    def fail(lines):
        assert "bad" not in lines

    with running(translate=Shouter(before=fail)) as live:
        for path in ("/health", "/health?q=secret", "/x1", "/x2"):
            live.ask(path)
        live.translate("bad")
        live.translate("Ja. Nein.")
        found = values(live.ask("/metrics").content)

    assert found['seq2seq_requests_total{path="/health",status="200"}'] == 2
    assert found['seq2seq_requests_total{path="/translate",status="500"}'] == 1
    assert found['seq2seq_batch_sentences_sum{pair="de-en"}'] >= 2
    assert found['seq2seq_batch_seconds_count{pair="de-en"}'] >= 1
    assert found['seq2seq_requests_total{path="other",status="404"}'] == 2
    assert found['seq2seq_request_seconds_count{path="/health"}'] == 2
    assert found["seq2seq_requests_in_progress"] == 1  # that for the measures


def test_the_headers_of_an_answer_may_be_asked_for_alone():
    with running() as live, live.connect() as connection:
        connection.sendall(b"HEAD /health HTTP/1.1\r\nHost: x\r\n\r\n")

        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
