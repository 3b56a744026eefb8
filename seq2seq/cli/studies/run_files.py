"""Read the files of a finished or failed run, and write those of a sweep's job."""

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, cast

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException
from omegaconf import OmegaConf
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError  # type: ignore[import-untyped]

from seq2seq.config.errors import describe_error
from seq2seq.config.serialization import flatten
from seq2seq.files.atomic import whole_file
from seq2seq.files.text import read_lines

RESULTS = "results.json"
CONFIG = "config.yaml"
FAILURE = "failed.txt"
OVERRIDES = "overrides.txt"
TRANSLATIONS, REFERENCES = "test.hyp", "test.ref"
_NOT_STUDIED = ("resume", "overwrite", "plugins", "run_name", "checkpoint_dir")
"""Keys that say where and how a run is started; they do not describe it."""
_WAY_OUT = "train the run again, or remove its directory from the comparison"


class Measure(NamedTuple):
    """A number of a finished run."""

    title: str
    form: str
    """Number format."""
    hint: str = ""
    """Meaning of the number."""


MEASURES = {
    "valid_bleu": Measure("Validation BLEU", ".2f", "of the best checkpoint on the validation set"),
    "bleu": Measure("BLEU", ".2f", "on the test set; higher is better"),
    "chrf": Measure("chrF", ".2f", "on the test set; higher is better"),
    "ter": Measure("TER", ".2f", "on the test set; lower is better"),
    "perplexity": Measure(
        "Perplexity", ".2f", "of the references of the test set; lower is better"
    ),
    "aer": Measure(
        "AER", ".3f", "alignment error rate of the attention against gold links; lower is better"
    ),
    "entropy": Measure("Entropy", ".2f", "of the weights of a target token, in nats"),
    "coverage": Measure("Coverage", ".3f", "weight that a source token gets in all, at most 1"),
    "sharpness": Measure("Sharpness", ".3f", "largest weight of a target token"),
    "parameters": Measure("Parameters", ".0f"),
    "minutes": Measure("Minutes", ".1f", "training and validation"),
    "tokens_per_second": Measure("Tokens/s", ".0f", "target tokens per second in training"),
    "best_update": Measure("Best update", ".0f"),
}
"""By their keys in the tables. All but `valid_bleu` and the last four are of the test set."""
_OF_HEADS = {
    "entropy": "entropy",
    "coverage": "coverage",
    "sharpness": "sharpness",
    "aer": "alignment_error_rate",
}
"""The measures of a single attention head, and their keys in results.json."""


@dataclass(kw_only=True, slots=True)
class Results:
    """The part of a run's results.json that comparisons read."""

    measures: dict[str, float] = field(default_factory=dict)
    """Those of `MEASURES` that the run has."""
    heads: list[dict[str, float | None]] = field(default_factory=list)
    """The measures of each attention head on the test set."""
    signature: str = ""
    """sacreBLEU's signature of BLEU."""
    device: str = ""
    training_data: str = ""
    """Fingerprint of the training data."""


def record_overrides(path: Path, overrides: Sequence[str]) -> None:
    """Write a job's overrides into its run directory, one a line."""
    _write_lines(path / OVERRIDES, overrides)


def record_failure(path: Path, reason: str, overrides: Sequence[str] = ()) -> None:
    """Write the reason and the overrides into the run's directory, a line each.

    The directory gets no other file: a run may start in it after a failure.
    """
    if (path / RESULTS).exists():
        return  # the results of an earlier sweep are kept
    path.mkdir(parents=True, exist_ok=True)
    _write_lines(path / FAILURE, [reason, *overrides])


def read_overrides(path: Path) -> dict[str, str] | None:
    """Read a job's overrides; None of a run that was not a job of a sweep.

    Equal values are equal texts, however they were typed.

    Raises:
        ValueError: The file is damaged.
    """
    if (path / FAILURE).is_file():
        lines = _read_own(path / FAILURE)[1:]
    elif (path / OVERRIDES).is_file():
        lines = _read_own(path / OVERRIDES)
    else:
        return None
    pairs = (line.lstrip("+").partition("=") for line in lines)
    return {
        key: _value_of_override(key, value) for key, _, value in pairs if key not in _NOT_STUDIED
    } or None


def read_config(path: Path) -> dict[str, str]:
    """Read the saved configuration, with dotted keys; a part's name stands under the part's key.

    Raises:
        ValueError: The file is damaged.
    """
    file = path / CONFIG
    if not file.is_file():  # a named pipe would be awaited for ever
        return {}
    try:
        content = OmegaConf.to_container(OmegaConf.load(file))
    except (ValueError, YAMLError, OmegaConfBaseException, OSError, RecursionError) as error:
        raise ValueError(f"{file} is damaged ({describe_error(error)}); {_WAY_OUT}") from error
    if not isinstance(content, dict):
        raise ValueError(f"{file} is not a configuration; {_WAY_OUT}")
    return {
        key.removesuffix(".name"): as_typed(value)
        for key, value in flatten(content).items()
        if key not in _NOT_STUDIED
    }


def read_failure(path: Path) -> str | None:
    """Return why a run failed; None if it did not."""
    if (path / FAILURE).is_file():
        return next(iter(_read_own(path / FAILURE)), "") or f"its {FAILURE} is empty"
    return None if (path / RESULTS).is_file() else f"it has no {RESULTS}"


def read_results(path: Path) -> Results:
    """Read a run's results.json.

    Raises:
        ValueError: The file is not JSON, or lacks what every run has.
    """
    try:
        results: object = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is damaged ({error}); {_WAY_OUT}") from error
    test = _value(results, "test", path) or {}  # there may be no test set
    if not isinstance(test, dict):
        raise ValueError(f"{path}: test={test!r} is not a set of scores; {_WAY_OUT}")
    heads = test.get("heads", [])
    if not isinstance(heads, list):
        raise ValueError(f"{path}: heads={heads!r} is not a list; {_WAY_OUT}")
    whole = cast(dict[str, object], results)
    known = {
        **test,
        **{key.removeprefix("attention_"): value for key, value in test.items()},
        "valid_bleu": _value(results, "valid.bleu", path),
        "parameters": _value(results, "parameters", path),
        "minutes": _value(results, "seconds", path),
        "tokens_per_second": _value(results, "target_tokens_per_second", path),
        "best_update": whole.get("best_update"),
    }
    measures = {}
    for name in MEASURES:
        if (value := _number(known.get(name), name, path)) is not None:
            measures[name] = value / 60 if name == "minutes" else value
    return Results(
        measures=measures,
        heads=[
            {name: _number(_value(head, key, path), name, path) for name, key in _OF_HEADS.items()}
            for head in heads
        ],
        signature=str(test.get("signature", "")),
        device=str(whole.get("device", "")),
        training_data=str(whole.get("training_data", "")),
    )


def read_scored_lines(path: Path) -> tuple[list[str], list[str]]:
    """Return the translations and the references of the test set of the run in a directory.

    Raises:
        ValueError: Their numbers differ, or a file is damaged.
    """
    translations, references = (_read_own(path / name) for name in (TRANSLATIONS, REFERENCES))
    if len(translations) != len(references):
        raise ValueError(
            f"{path / TRANSLATIONS} has {len(translations)} lines and {REFERENCES} has "
            f"{len(references)}; {_WAY_OUT}"
        )
    return translations, references


def _value(results: object, name: str, path: Path) -> object:
    """Return a value by its dotted name."""
    for key in name.split("."):
        if not isinstance(results, dict) or key not in results:
            raise ValueError(f"{path} has no {name}; {_WAY_OUT}")
        results = results[key]
    return results


def _number(value: object, name: str, path: Path) -> float | None:
    """Return a value that must be a number or None."""
    if isinstance(value, bool) or not isinstance(value, int | float | None):
        raise ValueError(f"{path}: {name}={value!r} is not a number; {_WAY_OUT}")
    return None if value is None else float(value)


def _read_own(file: Path) -> list[str]:
    try:
        return read_lines(file)
    except ValueError as error:
        raise ValueError(f"{file} is damaged ({error}); {_WAY_OUT}") from error


def _value_of_override(key: str, text: str) -> str:
    try:
        return as_typed(OverridesParser.create().parse_override(f"{key}={text}").value())
    except HydraException:  # of a damaged file
        return text


def as_typed(value: object) -> str:
    """Write a value as it is typed in an override."""
    if value is None or isinstance(value, bool):
        return "null" if value is None else str(value).lower()
    if isinstance(value, list):
        return f"[{','.join(map(as_typed, value))}]"
    if isinstance(value, dict):
        pairs = (f"{key}: {as_typed(each)}" for key, each in value.items())
        return f"{{{', '.join(pairs)}}}"
    return str(value)


def _write_lines(path: Path, lines: Sequence[str]) -> None:
    with whole_file(path) as file:
        file.write("".join(f"{line}\n" for line in lines).encode("utf-8"))
