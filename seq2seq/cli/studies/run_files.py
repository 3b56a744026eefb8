"""Read the measures of a finished run from its results.json."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import cast

_WAY_OUT = "train the run again, or remove its directory from the comparison"


def read_measures(path: Path, names: Iterable[str]) -> tuple[dict[str, float], str]:
    """Read measures of a run, and sacreBLEU's signature of its test score.

    Args:
        path: The run's results.json.
        names: The measures to return, as far as the run has them.

    Raises:
        ValueError: The file is not JSON, or lacks what every run has.
    """
    try:
        results: object = json.loads(path.read_text(encoding="utf-8"))
    except ValueError as error:
        raise ValueError(f"{path} is damaged ({error}); {_WAY_OUT}") from error
    test = cast(dict[str, object], _value(results, "test", path) or {})  # there may be no test set
    known = {
        **test,
        **{key.removeprefix("attention_"): value for key, value in test.items()},
        "valid_bleu": _value(results, "valid.bleu", path),
        "parameters": _value(results, "parameters", path),
        "minutes": cast(float, _value(results, "seconds", path)) / 60,
        "tokens_per_second": _value(results, "target_tokens_per_second", path),
        "best_update": cast(dict[str, object], results).get("best_update"),
    }
    found = {name: known[name] for name in names if known.get(name) is not None}
    measures = {name: float(cast(float, value)) for name, value in found.items()}
    return measures, str(test.get("signature", ""))


def _value(results: object, name: str, path: Path) -> object:
    """Return a value by its dotted name."""
    for key in name.split("."):
        if not isinstance(results, dict) or key not in results:
            raise ValueError(f"{path} has no {name}; {_WAY_OUT}")
        results = results[key]
    return results
