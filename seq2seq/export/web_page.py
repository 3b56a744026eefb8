"""A page that translates in the browser: one HTML file that makes no request."""

import base64
import gzip
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from markupsafe import Markup
from sentencepiece.sentencepiece_model_pb2 import ModelProto

from seq2seq.config.serialization import config_to_dict
from seq2seq.export.folder import ENCODER, SOURCE, STEP, TARGET, Runtime, read_runtime
from seq2seq.export.web_runtime import WebRuntime
from seq2seq.files.atomic import whole_file
from seq2seq.search.config import BeamConfig, convert_search
from seq2seq.text.rules import TextRules, any_of
from seq2seq.text.sentences import PATTERNS_OF_SENTENCES, RULES, TextHabits
from seq2seq.visualization.page import json_block, render_page

_TEMPLATE = Path(__file__).parent / "web" / "page.html"


def write_page(
    folder: Path, output: Path, *, runtime: WebRuntime, examples: Sequence[str] = ()
) -> None:
    """Write a page that contains an exported model; it is complete or absent.

    Args:
        folder: The folder that `export_model` wrote.
        output: The file to write.
        runtime: onnxruntime-web.
        examples: Sentences that the page offers; it translates the first one when it opens.

    Raises:
        OSError: A file cannot be read or written.
        ValueError: The folder was not exported or is damaged.
    """
    model = read_runtime(folder)
    # Both languages may have one tokenizer; then the page contains it once.
    names = [SOURCE, TARGET][: len({model.files[SOURCE], model.files[TARGET]})]
    tokenizers = [ModelProto.FromString((folder / name).read_bytes()) for name in names]
    files = {
        "wasm": runtime.wasm,
        "encoder": (folder / ENCODER).read_bytes(),
        "step": (folder / STEP).read_bytes(),
        "tokenizers": json_block(list(map(described_tokenizer, tokenizers))).encode(),
        "charsmap": tokenizers[0].normalizer_spec.precompiled_charsmap,
    }
    values = {
        "model": _description(model, examples),
        "files": {name: _packed(content) for name, content in files.items()},
        "runtime": Markup(runtime.script),
    }
    page = render_page(_TEMPLATE, values)
    with whole_file(output) as file:
        file.write(page.encode())


def _description(model: Runtime, examples: Sequence[str]) -> dict[str, object]:
    """Return the settings of a model that the script of the page reads."""
    habits = TextHabits(**model.habits)
    return {
        "source": model.source,
        "target": model.target,
        "states": model.states,
        "numHeads": model.num_heads,
        "decoding": config_to_dict(convert_search(model.decoding, BeamConfig)),
        "examples": list(examples),
        "sentences": sentence_rules(),
        "symbols": model.symbols,
        "confidence": model.confidence or None,
        "rules": described_rules(model.rules),
        "hasSentences": habits.has_sentences,
        "keepsOtherText": habits.keeps_other_text,
        "recases": not habits.reads_capitals,
    }


def described_tokenizer(model: ModelProto) -> dict[str, object]:
    """Return what the page needs of a model of SentencePiece, besides its charsmap."""
    return {
        "isBpe": model.trainer_spec.model_type == model.trainer_spec.BPE,
        "unknownText": model.trainer_spec.unk_surface,
        "pieces": [each.piece for each in model.pieces],
        # Nine digits tell all numbers of 32 bits apart.
        "scores": [float(f"{each.score:.9g}") for each in model.pieces],
    }


def described_rules(rules: TextRules) -> dict[str, object]:
    """Return the rules of text, with regular expressions of JavaScript."""
    return {
        "normalizes": rules.normalizes,
        "pattern": javascript_pattern(rules.patterns),
        "tags": rules.tags,
        "tag": _translated(any_of(rules.tags)),
    }


def sentence_rules() -> dict[str, object]:
    """Return the rules of sentences, with regular expressions of JavaScript."""
    return {
        "words": RULES,
        "patterns": {name: _translated(each) for name, each in PATTERNS_OF_SENTENCES.items()},
    }


_WHITE = r"\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000"
_LETTERS = {r"[^\W\d_]": r"[\p{L}\p{Nl}\p{No}]", r"[^\W_]": r"[\p{L}\p{N}]"}
"""Classes of Python's classes, and the same in JavaScript."""
_CLASSES = {"w": r"\p{L}\p{N}_", "d": r"\p{Nd}", "s": _WHITE}
"""The contents of Python's character classes, for JavaScript, whose own classes differ."""
_WORD = f"[{_CLASSES['w']}]"
_OUTSIDE = {name.upper(): f"[^{content}]" for name, content in _CLASSES.items()} | {
    "b": f"(?:(?<={_WORD})(?!{_WORD})|(?<!{_WORD})(?={_WORD}))",
    "A": "^",
    "Z": "$",
}
"""JavaScript for Python's other escapes; none of them can stand in a character class."""
_PARTS = re.compile(r"\[\^\\W(?:\\d)?_\]|\(\?P<|\\.|\{\d+,?\d*\}|.", re.DOTALL)
"""A class of letters, a named group, an escaped character, a number of repetitions, or another
character."""


def javascript_pattern(patterns: Mapping[str, str]) -> str:
    """Return a regular expression of JavaScript, for its flag u, that matches any of the patterns.

    Args:
        patterns: Regular expressions of Python, by the name of the group in the result.

    Example:
        >>> print(javascript_pattern({"codes": r"[\\w-]+#\\d"}))
        (?<codes>[\\p{L}\\p{N}_-]+#[\\p{Nd}])
    """
    return "|".join(f"(?<{name}>{_translated(each)})" for name, each in patterns.items())


def _translated(pattern: str) -> str:
    parts: list[str] = []
    is_in_class = False
    for part in _PARTS.findall(pattern):
        if len(part) == 1:
            is_bare = part in "{}" or (part == "]" and not is_in_class)
            parts.append(f"\\{part}" if is_bare else part)
            is_in_class = part == "[" or (is_in_class and part != "]")
            continue
        escaped = part[1]
        if len(part) > 2 and part[0] != "{":
            parts.append(_LETTERS.get(part, "(?<"))
        elif part[0] == "{" or escaped in "nrtfvxu":
            parts.append(part)
        elif escaped in _CLASSES:
            parts.append(_CLASSES[escaped] if is_in_class else f"[{_CLASSES[escaped]}]")
        elif escaped in _OUTSIDE and not is_in_class:
            parts.append(_OUTSIDE[escaped])
        elif escaped.isalnum():
            raise ValueError(
                f"tokenizer.protect={pattern}: a browser has no {part} with the same meaning; "
                "write it in another way, and train again"
            )
        else:  # JavaScript does not let every character be escaped
            parts.append(f"\\u{{{ord(escaped):x}}}")
    return "".join(parts)


def _packed(content: bytes) -> Markup:
    """Compress a file and encode it as base64, which needs no escapes in HTML."""
    return Markup(base64.b64encode(gzip.compress(content, 9, mtime=0)).decode())
