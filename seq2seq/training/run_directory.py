"""The directory of a run: its files, who may write them, and which checkpoints it keeps."""

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import cast

import numpy as np

from seq2seq.config.schema import TrainConfig
from seq2seq.config.serialization import save_config
from seq2seq.evaluation.metrics import Array
from seq2seq.files.atomic import is_temporary, whole_file, write_text
from seq2seq.files.lock import LOCK_NAME, DirectoryLock
from seq2seq.files.paths import reading
from seq2seq.files.text import read_lines
from seq2seq.inference.checkpoint import Checkpoint, save_checkpoint

_OF_SETS = ("src", "hyp", "ref", "gold", "npz")
"""Kinds of files that each scored set has."""


class RunDirectory:
    """Names the files of a run, writes and reads them, and protects other runs."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.config = path / "config.yaml"
        self.best = path / "best.pt"
        self.last = path / "last.pt"
        self.results = path / "results.json"
        self.validations = path / "validations.json"
        self.log = path / "train.log"
        self.tensorboard = path / "tensorboard"
        self.failure = path / "failed.txt"
        self.overrides = path / "overrides.txt"

    @property
    def has_run(self) -> bool:
        """Return whether the directory contains a run."""
        return self.config.is_file()

    @property
    def has_results(self) -> bool:
        """Return whether the run has come to its end."""
        return self.results.is_file()

    @property
    def has_begun(self) -> bool:
        """Return whether the directory has a run that began to train, and was not refused."""
        return self.has_run or self.has_results

    def text(self, split: str, kind: str) -> Path:
        """Return the path of a text of a scored set.

        Args:
            split: `test`; `valid`, the first validation set; or `valid.NAME`, a further one.
            kind: `src`, `hyp` (the translations), `ref`, `gold` (links) or `npz` (statistics).
        """
        return self.path / f"{split}.{kind}"

    def step(self, update: int) -> Path:
        """Return the path of the checkpoint of an update."""
        return self.path / f"step-{update}.pt"

    def lock(self) -> DirectoryLock:
        """Return the lock that a run holds from before its checks to its end."""
        advice = "wait until that run ends, stop it or choose another run_name"
        return DirectoryLock(self.path, advice=advice)

    def open(self, config: TrainConfig) -> None:
        """Create the directory, or delete the run that is to be overwritten."""
        if config.overwrite and self.has_run:
            self._clear()
        self.path.mkdir(parents=True, exist_ok=True)
        for path in self.path.iterdir():
            if is_temporary(path) and path.is_file():  # left by a killed process
                path.unlink()
        self.failure.unlink(missing_ok=True)
        # resume and overwrite say how a run starts; they do not describe the run.
        save_config(replace(config, resume=False, overwrite=False), self.config)

    def record_overrides(self, overrides: Sequence[str]) -> None:
        """Write the overrides of a sweep's job, one a line."""
        write_text(self.overrides, "".join(f"{each}\n" for each in overrides))

    def record_failure(self, reason: str, overrides: Sequence[str] = ()) -> None:
        """Write why a sweep's job failed, and its overrides, until the run starts again.

        The directory gets no other file: a run may start in it after a failure.
        """
        self.path.mkdir(parents=True, exist_ok=True)
        write_text(self.failure, "".join(f"{each}\n" for each in (reason, *overrides)))

    def read_overrides(self) -> list[str]:
        """Return the overrides of a sweep's job; empty for any other run."""
        if self.failure.is_file():
            return self._read_lines(self.failure)[1:]
        return self._read_lines(self.overrides) if self.overrides.is_file() else []

    def read_failure(self) -> str | None:
        """Return why a sweep's job failed; None if no failure is recorded."""
        if not self.failure.is_file():
            return None
        return next(iter(self._read_lines(self.failure)), "") or f"its {self.failure.name} is empty"

    def read_results(self) -> dict[str, object]:
        """Return the content of results.json.

        Raises:
            ValueError: The file is damaged.
        """
        return self._read_object(self.results)

    def read_validations(self) -> list[dict[str, float]]:
        """Return the update and the scores of each validation so far.

        Raises:
            ValueError: The file is damaged.
        """
        if not self.validations.exists():
            return []
        return cast(
            list[dict[str, float]], self._read_object(self.validations).get("validations", [])
        )

    def add_validation(self, scores: Mapping[str, float], *, update: int) -> None:
        """Add a validation; it replaces validations from its update on."""
        # A killed run may have validated later updates after its last checkpoint.
        kept = [each for each in self.read_validations() if each["update"] < update]
        kept.append({"update": update, **scores})
        text = json.dumps({"validations": kept}, separators=(",", ":"))
        write_text(self.validations, text + "\n")

    def _read_object(self, file: Path) -> dict[str, object]:
        with reading(file):
            return dict(json.loads(file.read_text(encoding="utf-8")))

    def read_texts(self, split: str, kinds: Sequence[str]) -> list[list[str]]:
        """Return the lines of some texts of a scored set; see `text`.

        Raises:
            ValueError: The numbers of lines differ, or a file is damaged.
            FileNotFoundError: There is no such text.
        """
        texts = [self._read_lines(self.text(split, kind)) for kind in kinds]
        if len({len(lines) for lines in texts}) > 1:
            files = self.text(split, f"{{{','.join(kinds)}}}")
            raise ValueError(f"{files} have different numbers of lines; train the run again")
        return texts

    def write_statistics(self, split: str, arrays: Mapping[str, Array]) -> None:
        """Write the statistics of each sentence of a scored set; see `text`."""
        with whole_file(self.text(split, "npz")) as file:
            np.savez_compressed(file, allow_pickle=False, **arrays)

    def read_statistics(self, split: str) -> dict[str, Array]:
        """Return what `write_statistics` wrote.

        Raises:
            ValueError: The file is damaged.
            OSError: There is no such file.
        """
        file = self.text(split, "npz")
        with reading(file), np.load(file, allow_pickle=False) as content:
            return dict(content)

    def keep_best(self, checkpoint: Checkpoint, best: Sequence[int], *, update: int) -> None:
        """Write a checkpoint as best.pt if it is the best, and as step-<n>.pt if several are kept.

        A run that is killed before it writes last.pt makes the same updates again when it is
        resumed, and writes the same files.

        Args:
            checkpoint: The weights that were validated last.
            best: Updates of the best checkpoints, best first.
            update: Update of the checkpoint.
        """
        if checkpoint.config.training.validation.keep_best > 1 and update in best:
            save_checkpoint(self.step(update), checkpoint)
        if update == best[0]:
            save_checkpoint(self.best, checkpoint)

    def delete_steps(self, updates: Sequence[int]) -> None:
        """Delete the step-<n>.pt of these updates; any other file may be the user's."""
        for update in updates:
            self.step(update).unlink(missing_ok=True)

    def _read_lines(self, file: Path) -> list[str]:
        with reading(file):
            return read_lines(file)

    @property
    def is_free(self) -> bool:
        """Return whether the directory contains nothing but what a run may replace.

        The failure of a sweep's job, the lock, and the unfinished files of a killed process may
        be there.
        """
        own = {self.failure, self.path / LOCK_NAME}
        return self.path.is_dir() and all(
            path in own or is_temporary(path) for path in self.path.iterdir()
        )

    def _clear(self) -> None:
        """Delete only the files of a run, the configuration last."""
        steps = [path for path in self.path.glob("step-*.pt") if path.stem[5:].isdecimal()]
        # Each further validation set has a file valid.NAME.npz; its other files share the stem.
        sets = ["test", "valid", *(path.stem for path in self.path.glob("valid.*.npz"))]
        texts = [self.text(name, kind) for name in sets for kind in _OF_SETS]
        named = [self.best, self.last, self.log, self.tensorboard, self.failure, self.overrides]
        named += [self.validations, self.results, self.config]
        for path in [*steps, *texts, *named]:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
