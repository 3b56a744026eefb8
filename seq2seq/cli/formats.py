"""What translate.py writes for each input line, as UTF-8."""

import json
from collections.abc import Callable

from seq2seq.cli.config import OutputFormat
from seq2seq.inference.translation import Translation


def format_translation(
    output_format: OutputFormat, translation: Translation, *, index: int
) -> bytes:
    """Return the lines, ended by line feeds, that are written for the input line `index`."""
    lines = _FORMATS[output_format](translation, index)
    return "".join(f"{line}\n" for line in lines).encode("utf-8", errors="replace")


def format_forced(output_format: OutputFormat, translation: Translation, *, index: int) -> bytes:
    """Return the same for a reference; a line of text is its log-probability, the text is known."""
    if output_format is OutputFormat.text:
        return f"{translation.hypotheses[0].log_probability:.4f}\n".encode()
    return format_translation(output_format, translation, index=index)


def _text(translation: Translation, index: int) -> list[str]:
    return [translation.hypotheses[0].text]


def _nbest(translation: Translation, index: int) -> list[str]:
    return [f"{index} ||| {found.text} ||| {found.score:.6f}" for found in translation.hypotheses]


def _json(translation: Translation, index: int) -> list[str]:
    hypotheses = [
        {
            "text": found.text,
            "score": found.score,
            "log_probability": found.log_probability,
            "finished": found.finished,
            "tokens": found.tokens,
            "token_log_probabilities": [round(each, 6) for each in found.token_log_probabilities],
            # Heads, then rows of target tokens, then columns of source tokens.
            "attention": [
                [[round(weight, 6) for weight in row] for row in head]
                for head in found.attention_weights.tolist()
            ],
        }
        for found in translation.hypotheses
    ]
    content = {
        "source": translation.source,
        "source_tokens": translation.source_tokens,
        "hypotheses": hypotheses,
    }
    return [json.dumps(content, ensure_ascii=False)]


_FORMATS: dict[OutputFormat, Callable[[Translation, int], list[str]]] = {
    OutputFormat.text: _text,
    OutputFormat.nbest: _nbest,
    OutputFormat.json: _json,
}
