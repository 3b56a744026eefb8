"""The directory of a run, the only place that a run writes to."""

import json
import os
import shutil
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

from seq2seq.config.schema import TrainConfig
from seq2seq.config.serialization import is_saved_config, load_saved_config, save_config
from seq2seq.data.files.sets import is_set_name
from seq2seq.files.atomic import is_temporary, whole_file
from seq2seq.files.lock import LOCK_NAME, DirectoryLock
from seq2seq.files.paths import expand_home, nearest_existing
from seq2seq.training.resume_changes import check_changes

_CONFIG = "config.yaml"
_TEXTS = ("src", "hyp", "ref", "gold")
_NAMES = (
    "best.pt",
    "last.pt",
    "average.pt",
    "train.log",
    "tensorboard",
    "failed.txt",
    "overrides.txt",
)


class RunDirectory:
    """Names the files of a run and protects an existing run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.best = path / "best.pt"
        self.last = path / "last.pt"
        self.average = path / "average.pt"
        self.results = path / "results.json"
        self.log = path / "train.log"
        self.tensorboard = path / "tensorboard"
        self._failure = path / "failed.txt"

    @property
    def has_run(self) -> bool:
        """Return whether the directory contains a run."""
        return (self.path / _CONFIG).is_file()

    def step(self, update: int) -> Path:
        """Return the path of the checkpoint of an update."""
        return self.path / f"step-{update}.pt"

    def lock(self) -> DirectoryLock:
        """Return the lock that a run holds from before `check` to its end.

        Raises:
            ValueError: The directory cannot be created or written.
        """
        self._check_writable()
        if self.path.exists() and not self.path.is_dir():
            raise ValueError(f"{self.path} exists and is not a run; choose another run_name")
        advice = "wait until that run ends, stop it or choose another run_name"
        return DirectoryLock(self.path, advice=advice)

    def check(self, config: TrainConfig) -> None:
        """Check that the run may start, before anything is read or written.

        Raises:
            ValueError: A run exists and neither resume nor overwrite was given, there is no run to
                resume, the run has another configuration, or the directory is not writable.
        """
        if config.resume and config.overwrite:
            raise ValueError("resume and overwrite=true exclude each other; choose one")
        if config.resume_changes and not config.resume:
            raise ValueError("resume_changes names keys to change in a run: add resume=true")
        self._check_writable()
        if not self.has_run:
            if config.resume:
                raise ValueError(f"resume=true: {self.path} has no run; remove resume=true")
            if self.path.exists() and not self._is_free():
                raise ValueError(f"{self.path} exists and is not a run; choose another run_name")
            return
        if config.resume:
            saved = load_saved_config(self.path / _CONFIG)
            check_changes(saved, config, where=str(self.path))
        elif not config.overwrite:
            raise ValueError(
                f"{self.path} has a run already; continue it with resume=true, replace it with "
                "overwrite=true or choose another run_name"
            )
        elif not is_saved_config(self.path / _CONFIG):  # that of another program
            raise ValueError(
                f"overwrite=true: {self.path / _CONFIG} is not the configuration of a run; choose "
                "another run_name"
            )
        elif config.init_from is not None and self._holds(
            expand_home(config.init_from, key="init_from")
        ):
            raise ValueError(
                f"init_from={config.init_from} is in {self.path}, which overwrite=true deletes; "
                "choose another run_name"
            )

    def open(self, config: TrainConfig) -> None:
        """Create the directory, or delete the run that is to be overwritten."""
        if config.overwrite and self.has_run:
            self._clear()
        self.path.mkdir(parents=True, exist_ok=True)
        self._remove_unfinished()
        self._failure.unlink(missing_ok=True)
        # resume and overwrite say how a run starts; they do not describe the run.
        saved = replace(
            config, resume=False, overwrite=False, resume_changes=self._all_changes(config)
        )
        save_config(saved, self.path / _CONFIG)

    def next_best(self, update: int) -> Path:
        """Return the path of the checkpoint of an update that becomes best.pt."""
        return self.path / f"best-{update}.pt"

    def next_bests(self) -> list[tuple[Path, int]]:
        """Return the checkpoints that have not become best.pt, and their updates."""
        return self._numbered("best")

    def keep_steps(self, updates: Collection[int]) -> None:
        """Delete the checkpoints of other updates."""
        for path, update in self._numbered("step"):
            if update not in updates:
                path.unlink()

    def write(self, name: str, text: str) -> None:
        """Write a file atomically: it is complete or absent."""
        with whole_file(self.path / name) as file:
            file.write(text.encode("utf-8"))

    def _numbered(self, name: str) -> list[tuple[Path, int]]:
        """Return the files NAME-<n>.pt and their numbers; files of other names are the user's."""
        numbers = (
            (path, path.stem.removeprefix(f"{name}-")) for path in self.path.glob(f"{name}-*.pt")
        )
        return [(path, int(number)) for path, number in numbers if number.isdecimal()]

    def _check_writable(self) -> None:
        """Raise ValueError unless the directory can be created and written."""
        existing = nearest_existing(self.path)
        if existing != self.path and not existing.is_dir():
            raise ValueError(f"{existing} is not a directory; choose another checkpoint_dir")
        if not os.access(existing, os.W_OK):
            raise ValueError(f"{existing} cannot be written to; choose another checkpoint_dir")

    def _is_free(self) -> bool:
        """Return whether the directory has no files of others.

        The failure of a sweep's job, the lock, and the unfinished files of a killed process may
        be there.
        """
        own = {self._failure, self.path / LOCK_NAME}
        return self.path.is_dir() and all(
            path in own or is_temporary(path) for path in self.path.iterdir()
        )

    def _holds(self, path: Path) -> bool:
        return path.resolve().is_relative_to(self.path.resolve())

    def _all_changes(self, config: TrainConfig) -> list[str]:
        """Return the keys that were changed when the run was resumed, now or before."""
        if not config.resume or not self.has_run:
            return []
        before = load_saved_config(self.path / _CONFIG).resume_changes
        return list(dict.fromkeys([*before, *config.resume_changes]))

    def _remove_unfinished(self) -> None:
        """Delete the unfinished files of a killed process."""
        for path in self.path.iterdir():
            if is_temporary(path) and path.is_file():
                path.unlink()

    def _other_valid(self) -> list[str]:
        """Return the names of the further validation sets, whose files a finished run has."""
        try:
            names = list(json.loads(self.results.read_text(encoding="utf-8"))["other_valid"])
        except (OSError, ValueError, KeyError, TypeError):  # not finished, or damaged
            return []
        return [name for name in names if is_set_name(str(name))]

    def _clear(self) -> None:
        """Delete the files of a run and no others; the configuration last."""
        numbered = [path for name in ("best", "step") for path, _ in self._numbered(name)]
        sets = ("test", "valid", *(f"valid.{name}" for name in self._other_valid()))
        texts = [self.path / f"{name}.{text}" for name in sets for text in _TEXTS]
        named = [self.path / name for name in _NAMES]
        for path in [*numbered, *texts, *named, self.results, self.path / _CONFIG]:
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink(missing_ok=True)
