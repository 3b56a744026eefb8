"""The model card of an exported folder, in the form of Hugging Face."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, cast

from seq2seq.config.serialization import config_to_dict
from seq2seq.evaluation.measures import MEASURES, OF_TEXT
from seq2seq.export.folder import ExportPrecision
from seq2seq.inference.checkpoint import Checkpoint
from seq2seq.model.seq2seq import count_parameters
from seq2seq.search.config import DEFAULT_SEARCH
from seq2seq.training.run_directory import RunDirectory

_TEMPLATE = Path(__file__).with_name("card.md")


class RunResults(NamedTuple):
    """The results of a run for its best checkpoint."""

    split: str
    """`test`, or `valid` if the run has no test set."""
    content: dict[str, object]
    """The content of results.json."""


def read_results(checkpoint: Path) -> RunResults | None:
    """Read the results of the run whose best checkpoint is given; None if there are none.

    Raises:
        ValueError: A file of the run is damaged.
    """
    directory = RunDirectory(checkpoint if checkpoint.is_dir() else checkpoint.parent)
    if checkpoint not in (directory.path, directory.best) or not directory.has_results:
        return None
    content = directory.read_results()
    return RunResults("test" if content["test"] else "valid", content)


def model_card(
    checkpoint: Checkpoint,
    *,
    results: RunResults | None,
    precision: ExportPrecision,
    folder_name: str,
) -> str:
    """Write the card as Markdown, with metadata for searching on Hugging Face."""
    config, tokenizers = checkpoint.config, checkpoint.tokenizers
    search = config_to_dict(DEFAULT_SEARCH)
    is_int8 = precision is ExportPrecision.int8
    int8 = "- The graphs are in int8: the other sentences of a batch may change a translation.\n"
    torch = " With torch, `seq2seq.Translator.load({})` reads `best.pt`, which has all settings."
    return _TEMPLATE.read_text(encoding="utf-8").format(
        config=config,
        model=config.model,
        default=DEFAULT_SEARCH,
        data=config.data,
        name=folder_name,
        source=_quoted(config.data.source),
        target=_quoted(config.data.target),
        path=_quoted(folder_name),
        parameters=count_parameters(checkpoint.build_model()),
        num_source=len(tokenizers.source),
        num_target=len(tokenizers.target),
        search=", ".join(f"{key}={value}" for key, value in search.items()),
        precision=precision.name,
        int8=int8 if is_int8 else "",
        torch="" if is_int8 else torch.format(_quoted(folder_name)),
        **_result_texts(checkpoint, results),
    )


def _result_texts(checkpoint: Checkpoint, results: RunResults | None) -> dict[str, str]:
    config, data = checkpoint.config, checkpoint.config.data
    if results is None:
        text = "The checkpoint came without the results of a run."
        return {"model_index": "", "training": f"The data was `{data.name}`.", "results": text}
    content = results.content
    scores = cast(dict[str, float], content[results.split])
    measures = [MEASURES[name] for name in OF_TEXT]
    values = [f"{scores[each.name]:{each.form}}" for each in measures]
    metrics = [
        {"type": each.name, "name": each.title, "value": float(value)}
        for each, value in zip(measures, values, strict=True)
    ]
    dataset = {"name": data.name, "type": data.name, "split": results.split}
    result = {"task": {"type": "translation"}, "dataset": dataset, "metrics": metrics}
    index = [{"name": config.run_name, "results": [result]}]
    titles = [each.title for each in measures]
    parts = [
        f"On the held-out sentences of `{results.split}`, with `decoding={config.decoding.name}` "
        f"and the signature `{scores['signature']}`, before any rounding:",
        _table(("score", "value"), [*zip(titles, values, strict=True)]),
    ]
    minutes = cast(float, content["seconds"]) / 60
    rows = [
        ("command", f"`{content['command']}`"),
        ("seed", f"{config.seed}"),
        ("text", f"{content['target_tokens']:,} target tokens in {content['epochs']:g} epochs"),
        ("license of the text", data.license or "not stated"),
        ("machine", f"{content['processor']} ({content['device']}), {minutes:.0f} minutes"),
        ("date", f"{content['date']}"),
    ]
    return {
        "model_index": f"model-index: {_quoted(index)}\n",
        "training": f"{_table(('part', 'value'), rows)}\n\nThe folder has no sentence of the text.",
        "results": "\n\n".join(parts),
    }


def _quoted(value: object) -> str:
    """Write a value as JSON, which YAML and Python can read too."""
    return json.dumps(value, ensure_ascii=False)


def _table(titles: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    cells = [titles, ["---"] * len(titles), *rows]
    escaped = ([cell.replace("\n", " ").replace("|", "\\|") for cell in row] for row in cells)
    return "\n".join(f"| {' | '.join(row)} |" for row in escaped)
