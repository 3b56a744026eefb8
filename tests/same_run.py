"""Disturb a run, and compare two runs of one configuration, to the bit but for times."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tiny_training import read_scalars

TIMES = ("seconds", "minutes", "target_tokens_per_second")
"""Ends of the names of curves."""
MEASURED = (
    *("seconds", "update_seconds", "interval", "target_tokens_per_second"),
    *("date", "command"),
)


class Killed(BaseException):
    """The process is gone: nothing catches this."""


def act_in(
    patch: pytest.MonkeyPatch,
    owner: object,
    name: str,
    *,
    call: int,
    action: Callable[[], object],
) -> list[int]:
    """Act at the beginning of the n-th call of a function; return a list of the calls so far."""
    original, calls = getattr(owner, name), []

    def function(*arguments, **keywords):
        calls.append(len(calls) + 1)
        if len(calls) == call:
            action()
        return original(*arguments, **keywords)

    patch.setattr(owner, name, function)
    return calls


def kill_in(patch: pytest.MonkeyPatch, owner: type, name: str, *, call: int) -> None:
    """Make the n-th call of a method end the process."""

    def kill() -> None:
        raise Killed

    act_in(patch, owner, name, call=call, action=kill)


def assert_same_run(first: Path, second: Path) -> None:
    names = {path.name for path in first.iterdir()}
    assert names == {path.name for path in second.iterdir()}
    for name in sorted(name for name in names if name.endswith(".pt")):
        contents = (torch.load(path / name, weights_only=True) for path in (first, second))
        assert_equal(*(each["model"] for each in contents))
    states = [
        torch.load(path / "last.pt", weights_only=True)["training"] for path in (first, second)
    ]
    assert_equal(states[0]["updater"], states[1]["updater"])
    assert without_times(states[0]["progress"]) == without_times(states[1]["progress"])
    texts = {name for name in names if name.startswith(("valid.", "test."))}
    assert len(texts) == 8
    for name in texts:
        assert (first / name).read_bytes() == (second / name).read_bytes()
    results = [json.loads((path / "results.json").read_text()) for path in (first, second)]
    assert without_times(results[0]) == without_times(results[1])
    curves = [read_scalars(path / "tensorboard") for path in (first, second)]
    assert curves[0].keys() == curves[1].keys()
    for tag in curves[0]:
        if not tag.endswith(TIMES):
            assert curves[0][tag] == curves[1][tag], tag


def assert_equal(first: object, second: object) -> None:
    if isinstance(first, dict):
        assert first.keys() == second.keys()
        for key in first:
            assert_equal(first[key], second[key])
    elif isinstance(first, torch.Tensor):
        assert torch.equal(first, second)
    else:
        assert first == second


def is_equal(first: dict[str, torch.Tensor], second: dict[str, torch.Tensor]) -> bool:
    """Return whether two states have the same tensors."""
    return first.keys() == second.keys() and all(
        torch.equal(value, second[name]) for name, value in first.items()
    )


def without_times(content: dict) -> dict:
    return {key: value for key, value in content.items() if key not in MEASURED}
