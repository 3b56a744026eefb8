"""Format the output lines of translate.py."""

import json

from seq2seq.cli.translation.config import OutputFormat
from seq2seq.inference.translation import Translation


def format_translation(
    output_format: OutputFormat, translation: Translation, *, index: int
) -> bytes:
    """Return the output for the input line `index`, as UTF-8 lines."""
    if output_format is OutputFormat.text:
        lines = [translation.text]
    elif output_format is OutputFormat.nbest:
        found = translation.hypotheses
        lines = [f"{index} ||| {each.text} ||| {each.score:.6f}" for each in found]
    else:
        lines = [_json(translation)]
    return "".join(f"{line}\n" for line in lines).encode("utf-8", errors="replace")


def format_scored(output_format: OutputFormat, translation: Translation, *, index: int) -> bytes:
    """Return the output for a scored reference; as text, only its log-probability."""
    if output_format is OutputFormat.text:
        return f"{translation.best.log_probability:.4f}\n".encode()
    return format_translation(output_format, translation, index=index)


def _json(translation: Translation) -> str:
    hypotheses = [
        {
            "text": found.text,
            "score": found.score,
            "log_probability": found.log_probability,
            "finished": found.finished,
            "tokens": found.tokens,
            "token_log_probabilities": [round(value, 6) for value in found.token_log_probabilities],
            # (heads, target tokens, source tokens)
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
    return json.dumps(content, ensure_ascii=False)
