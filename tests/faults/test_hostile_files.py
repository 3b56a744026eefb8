"""Crafted files run no code, exhaust no memory, block nothing and end in one line."""

import functools
import operator
import os
import pickle
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from tiny_translator import make_checkpoint

from seq2seq.inference.checkpoint import load_checkpoint, save_checkpoint


class Touch:
    """Creates a file when it is unpickled."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, ...]:
        return os.mkdir, (str(self.path),)


def payload_alone(path: Path, proof: Path) -> None:
    path.write_bytes(pickle.dumps(Touch(proof)))


def payload_in_an_archive(path: Path, proof: Path) -> None:
    torch.save({"format": 1, "model": Touch(proof)}, path)


def payload_beside_the_content(path: Path, proof: Path) -> None:
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("best/data.pkl", pickle.dumps(Touch(proof)))


def payload_in_the_configuration(path: Path, proof: Path) -> None:
    content = torch.load(path, weights_only=True)
    content["config"]["run_name"] = f"${{oc.env:PATH}}{proof}"
    torch.save(content, path)


def forged(key: str, value: object) -> Callable[[Path, Path], None]:
    """Return a function that changes one key of the configuration in a checkpoint."""

    def change(path: Path, proof: Path) -> None:
        content = torch.load(path, weights_only=True)
        *groups, name = key.split(".")
        functools.reduce(operator.getitem, groups, content["config"])[name] = value
        torch.save(content, path)

    return change


def configuration_in_itself(path: Path, proof: Path) -> None:
    content = torch.load(path, weights_only=True)
    content["config"]["model"]["encoder"] = content["config"]
    torch.save(content, path)


def pipe(path: Path, proof: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def endless_device(path: Path, proof: Path) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


HUGE = 10**10
FORGED = {
    "model.encoder.num_layers": HUGE,
    "model.encoder.hidden_size": HUGE,
    "attention.size": HUGE,
    "attention": {"name": "local", "normalizer": "softmax", "window": HUGE, "dropout": 0.0},
    "training.threads": HUGE,
    "decoding.max_length_offset": HUGE**2,
}
CRAFTED = [
    payload_alone,
    payload_in_an_archive,
    payload_beside_the_content,
    payload_in_the_configuration,
    *(pytest.param(forged(key, value), id=f"forged-{key}") for key, value in FORGED.items()),
    configuration_in_itself,
    pipe,
    endless_device,
]


@pytest.mark.filterwarnings("ignore:Duplicate name")
@pytest.mark.parametrize("craft", CRAFTED)
def test_a_crafted_checkpoint_is_refused_by_name(
    tmp_path: Path, craft: Callable[[Path, Path], None]
) -> None:
    path, proof = tmp_path / "best.pt", tmp_path / "proof"
    save_checkpoint(path, make_checkpoint())
    craft(path, proof)

    with pytest.raises(ValueError, match=r"^(checkpoint=)?\S*best\.pt: ") as refused:
        load_checkpoint(path)

    assert not proof.exists()
    assert "\n" not in str(refused.value)
