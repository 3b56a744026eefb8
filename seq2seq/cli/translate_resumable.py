"""Keep the finished windows of a large translation, and continue behind them."""

import contextlib
import json
import logging
import os
import shutil
from collections.abc import Iterator
from dataclasses import asdict
from enum import Enum
from pathlib import Path
from typing import BinaryIO, TypeVar

from seq2seq.checks import counted
from seq2seq.cli.outputs import check_output, open_output
from seq2seq.cli.translate_config import TranslateConfig
from seq2seq.files.atomic import create_file, is_temporary, naming, whole_file, whole_files
from seq2seq.files.lock import LOCK_NAME, DirectoryLock
from seq2seq.files.paths import expand_home, file_sha256

T = TypeVar("T")
logger = logging.getLogger(__name__)

_OF_NO_TEXT = ("resume", "output", "progress", "processes")
"""Keys that change no translation."""
_READ = ("checkpoint", "plugins", "input", "prefixes", "banned_phrases", "dictionary")
_TEXT, _STATE = "text", "state.json"


class PartialOutput:
    """The finished windows of an output, in the directory `OUTPUT.partial`.

    `text` has their translations. `state.json` says how many lines and bytes of it count, and what
    produced them: the keys of the command, and the content of the files that it reads.
    """

    def __init__(self, config: TranslateConfig) -> None:
        """Read what an earlier process has left; nothing is written.

        Raises:
            ValueError: The directory is of another command or program, or its files are damaged.
            OSError: A file cannot be read.
        """
        assert config.output is not None
        [self._output] = config.output
        output = check_output(self._output, key="output")
        if output.exists() and not output.is_file():
            raise ValueError(f"output={self._output} is not a file, so resume=true cannot keep it")
        self.directory = output.with_name(f"{output.name}.partial")
        self.num_lines = 0
        """Lines that are translated."""
        self._num_bytes = 0
        self._file: BinaryIO | None = None
        self._produced_by = _produced_by(config)
        self._read_state()

    def _read_state(self) -> None:
        """Continue behind the last saved window."""
        path = self.directory / _STATE
        if not path.exists():
            if self.directory.exists() and not self._is_empty():
                raise ValueError(
                    f"{self.directory} was not written by this program; move it away or choose "
                    "another output"
                )
            return
        try:
            state = json.loads(path.read_bytes())
            produced_by = dict(state["produced_by"])
            self.num_lines, self._num_bytes = int(state["lines"]), int(state["bytes"])
        except (ValueError, KeyError, TypeError) as error:
            raise self._damaged(path) from error
        keys = sorted({*produced_by, *self._produced_by})
        for key in keys:
            if produced_by.get(key) != self._produced_by.get(key):
                raise ValueError(
                    f"{self.directory} was begun with another {key}; use the same, choose another "
                    f"output, or delete {self.directory} to begin anew"
                )
        if not (self.directory / _TEXT).exists():  # the process was killed as it deleted the files
            self.num_lines = self._num_bytes = 0

    def _is_empty(self) -> bool:
        """Return whether there is a directory in which nothing was kept yet."""
        return self.directory.is_dir() and all(
            each.name == LOCK_NAME or is_temporary(each) for each in self.directory.iterdir()
        )

    def _damaged(self, path: Path) -> ValueError:
        return ValueError(f"{path} is damaged; delete {self.directory} to begin anew")

    @contextlib.contextmanager
    def open(self) -> Iterator[BinaryIO]:
        """Open the file of the finished windows to write behind them, and lock the directory.

        When the block ends without an error, the output is written and the directory is deleted.

        Raises:
            ValueError: Another process writes this output.
            OSError: A file cannot be written.
        """
        with DirectoryLock(self.directory, advice="wait for it, or choose another output"):
            path = self.directory / _TEXT
            self._write_state()  # first, since it marks the directory as one of this program
            with create_file(path, append=True) as file:
                if file.tell() < self._num_bytes:
                    raise self._damaged(path)
                file.truncate(self._num_bytes)
                file.seek(self._num_bytes)
                self._file = file
                if self.num_lines:
                    logger.info(
                        "%s has %s already", self.directory, counted(self.num_lines, "line")
                    )
                yield file
            with (
                path.open("rb") as text,
                whole_files() as new_file,
                open_output(self._output, key="output", new_file=new_file) as output,
            ):
                shutil.copyfileobj(text, output)
            hidden = [each for each in self.directory.iterdir() if is_temporary(each)]
            for each in (*hidden, path, self.directory / _STATE):
                each.unlink()
        with contextlib.suppress(OSError):  # gone with the lock, or in use again
            self.directory.rmdir()

    def saving(self, translations: Iterator[T], *, every: int) -> Iterator[T]:
        """Yield translations, and save after each window of `every`, and after the last one.

        A translation is written before the next one is asked for.
        """
        for translation in translations:
            yield translation
            self.num_lines += 1
            if self.num_lines % every == 0:
                self._save()
        self._save()

    def _save(self) -> None:
        """Record how many lines are translated, after their text is on disk."""
        assert self._file is not None, "an open block"
        self._file.flush()
        with naming(self.directory / _TEXT):
            os.fsync(self._file.fileno())
        self._num_bytes = self._file.tell()
        self._write_state()

    def _write_state(self) -> None:
        state = {
            "lines": self.num_lines,
            "bytes": self._num_bytes,
            "produced_by": self._produced_by,
        }
        with whole_file(self.directory / _STATE) as state_file:
            state_file.write(json.dumps(state, indent=2).encode("ascii"))


def _produced_by(config: TranslateConfig) -> dict[str, str]:
    """Return what determines the output: values of keys, and digests of the files they name."""
    values = asdict(config)
    decoding = values.pop("decoding")
    values |= {f"decoding.{key}": value for key, value in decoding.items()}
    found = {
        key: str(value.value if isinstance(value, Enum) else value)
        for key, value in values.items()
        if key not in _OF_NO_TEXT and value is not None
    }
    for key in _READ:
        paths = values[key] or []
        names = [paths] if isinstance(paths, str) else paths
        if names:
            found[key] = " ".join(_digest(name, key=key) for name in names)
    return found


def _digest(name: str, *, key: str) -> str:
    """Return the SHA-256 of a file, of a run's best checkpoint, or of the files in a folder.

    Of what is no path, such as a plug-in that is a module, the name is returned.
    """
    path = expand_home(name, key=key)
    if not path.exists():
        return name
    if path.is_file():
        return file_sha256(path)
    if not path.is_dir():  # a pipe gives its content once
        raise ValueError(f"{key}={name} is read twice with resume=true; give a file")
    best = path / "best.pt"
    files = [best] if best.is_file() else sorted(each for each in path.iterdir() if each.is_file())
    return " ".join(map(file_sha256, files))
