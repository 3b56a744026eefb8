"""The model card of an exported folder, in the form of Hugging Face."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, cast

from seq2seq.checkpoints.checkpoint import Checkpoint
from seq2seq.files.exported import ExportPrecision
from seq2seq.model import count_parameters
from seq2seq.training.run_directory import RunDirectory

_METRICS = {"bleu": "BLEU", "chrf": "chrF2", "ter": "TER"}
_NUM_EXAMPLES = 3


class RunResults(NamedTuple):
    """The results of a run for its best checkpoint."""

    split: str
    """`test`, or `valid` if the run has no test set."""
    scores: dict[str, float | str]
    """Scores on this set, and their signature."""
    examples: list[tuple[str, ...]]
    """Source, translation and reference of some sentences."""
    epochs: float
    target_tokens: int
    """Trained on, counting repetitions."""


def read_results(checkpoint: Path) -> RunResults | None:
    """Read the results of the run of a best.pt; None for another checkpoint, or without results.

    Raises:
        ValueError: A file of the run is damaged.
    """
    directory = RunDirectory(checkpoint if checkpoint.is_dir() else checkpoint.parent)
    if checkpoint not in (directory.path, directory.best) or not directory.has_results:
        return None
    results = directory.read_results()
    split = "test" if "test" in results else "valid"
    texts = directory.read_texts(split, ["src", "hyp", "ref"])
    return RunResults(
        split=split,
        scores=cast(dict[str, float | str], results[split]),
        examples=[*zip(*texts, strict=True)][:_NUM_EXAMPLES],
        epochs=cast(float, results["epochs"]),
        target_tokens=cast(int, results["target_tokens"]),
    )


def model_card(
    checkpoint: Checkpoint,
    *,
    results: RunResults | None,
    precision: ExportPrecision,
    license_name: str | None,
    folder_name: str,
) -> str:
    """Write the card as Markdown, with metadata that a search reads."""
    data = checkpoint.config.data
    sentence = json.dumps(results.examples[0][0] if results else "...", ensure_ascii=False)
    path = json.dumps(folder_name, ensure_ascii=False)
    parts = [
        _metadata(checkpoint, results, license_name),
        f"# {folder_name}: {data.source} to {data.target}",
        f"Translates sentences from {data.source} to {data.target}. The model is a GRU encoder and "
        f"a GRU decoder with attention, trained with attention-seq2seq on `{data.name}`.",
        "## Use",
        "```python\n"
        "from seq2seq.export import OnnxTranslator\n\n"
        f"translator = OnnxTranslator.load({path})\n"
        f"print(translator([{sentence}])[0].text)\n"
        "```",
        "This needs numpy, onnxruntime and sentencepiece, and no torch. With torch, "
        f"`seq2seq.Translator.load({path})` reads the same folder.",
        "## Model",
        _table(("part", "value"), _model_rows(checkpoint, precision)),
        "## Training data",
        _data_text(checkpoint, results),
        "## Results",
        _results_text(results),
        "## Limits",
        "\n".join(f"- {limit}" for limit in _limits(checkpoint, precision)),
    ]
    return "\n\n".join(parts) + "\n"


def _metadata(checkpoint: Checkpoint, results: RunResults | None, license_name: str | None) -> str:
    """Return the front matter; texts are quoted as in JSON, which YAML reads."""
    data = checkpoint.config.data
    lines = ["language:", *(f"- {json.dumps(each)}" for each in (data.source, data.target))]
    if license_name is not None:
        lines.append(f"license: {json.dumps(license_name)}")
    lines += ["library_name: attention-seq2seq", "pipeline_tag: translation"]
    lines += ["tags:", "- translation", "- onnx", "- gru", "- attention"]
    if results is not None:
        name = json.dumps(checkpoint.config.run_name)
        lines += ["model-index:", f"- name: {name}", "  results:", "  - task:"]
        lines += ["      type: translation", "    dataset:"]
        lines += [f"      {key}: {json.dumps(data.name)}" for key in ("name", "type")]
        lines += [f"      split: {results.split}", "    metrics:"]
        for metric, title in _METRICS.items():
            lines += [f"    - type: {metric}", f"      name: {title}"]
            lines += [f"      value: {results.scores[metric]:.2f}"]
    return "\n".join(["---", *lines, "---"])


def _model_rows(checkpoint: Checkpoint, precision: ExportPrecision) -> list[tuple[str, str]]:
    config, tokenizers = checkpoint.config, checkpoint.tokenizers
    encoder, decoder = config.model.encoder, config.model.decoder
    parameters = count_parameters(checkpoint.build_model())
    return [
        ("parameters", f"{parameters:,}"),
        ("attention", f"{config.attention.name}, {config.attention.normalizer.name}"),
        ("decoder form", config.model.name),
        ("layers of encoder and decoder", f"{encoder.num_layers} and {decoder.num_layers}"),
        ("size of a state", f"2 x {encoder.hidden_size} and {decoder.hidden_size}"),
        ("size of an embedding", f"{encoder.embedding_size} and {decoder.embedding_size}"),
        ("tokenizer", config.tokenizer.name),
        ("vocabulary", f"{len(tokenizers.source):,} and {len(tokenizers.target):,} tokens"),
        ("default search", repr(config.decoding)),
        ("graphs", precision.name),
    ]


def _data_text(checkpoint: Checkpoint, results: RunResults | None) -> str:
    text = f"`data={checkpoint.config.data.name}`; `config.yaml` has all settings."
    if results is None:
        return text
    return (
        f"{text} The model read {results.target_tokens:,} target tokens in {results.epochs:g} "
        "epochs."
    )


def _results_text(results: RunResults | None) -> str:
    if results is None:
        return "The checkpoint came without the results of a run."
    scores = results.scores
    rows = [(title, f"{scores[metric]:.2f}") for metric, title in _METRICS.items()]
    parts = (
        f"On `{results.split}`, with the signature `{scores['signature']}`:",
        _table(("score", "value"), rows),
        "The first sentences:",
        _table(("source", "translation", "reference"), results.examples),
    )
    return "\n\n".join(parts)


def _limits(checkpoint: Checkpoint, precision: ExportPrecision) -> list[str]:
    decoding = checkpoint.config.decoding
    limits = [
        "It translates sentence by sentence, without their context.",
        "Text unlike its training data, and names and words that are not in it, may be translated "
        "wrongly, however fluent the translation reads.",
        f"A translation has at most {decoding.max_length_ratio:g} tokens for each source token "
        f"and {decoding.max_length_offset} more.",
        "Weights of attention show what the decoder read, which need not be why it wrote a word.",
    ]
    if precision is ExportPrecision.int8:
        limits.append(
            "The graphs are in int8: the other sentences of a batch may change a translation."
        )
    return limits


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    cells = [titles, ["---"] * len(titles), *rows]
    return "\n".join(f"| {' | '.join(each).replace(chr(10), ' ')} |" for each in cells)
