"""Translate a large input in parts: in several processes, and without the finished parts."""

import contextlib
import json
import logging
import multiprocessing
import os
import pickle
import signal
import tempfile
import threading
from collections import deque
from collections.abc import Generator, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

import torch

from seq2seq.checks import counted, field_types
from seq2seq.cli.outputs import check_output
from seq2seq.cli.translate_config import TranslateConfig, Use
from seq2seq.cli.translate_lines import LineTranslator
from seq2seq.cli.translate_streams import TranslationProgress, Window
from seq2seq.config.plugins import load_plugins
from seq2seq.files.atomic import DamagedFileError, is_temporary, whole_file, whole_files
from seq2seq.files.lock import LOCK_NAME, DirectoryLock
from seq2seq.files.paths import expand_home, file_sha256
from seq2seq.inference.tally import Tally
from seq2seq.kernels.products import use_kernels
from seq2seq.runtime.process import keep_freed_memory, log_to_stderr

logger = logging.getLogger(__name__)

_STATE = "state.json"
_PART = "part-"
_TALLY = "tally"
_DIGEST_SIZE = 32
_READ_AHEAD = 2
"""Number of parts for each process: the part that it translates, and the next part."""


class _Part(NamedTuple):
    """A window whose translations are written to files."""

    window: Window
    directory: Path
    is_new: bool = False
    """Whether this command translated the part, not an earlier command."""

    def path(self, key: str) -> Path:
        """Return the file of the part for an output, or for what deserves a warning."""
        return self.directory / f"{_PART}{self.window.number:012}.{key}"

    def read(self, key: str) -> bytes:
        """Return the content of a file, which begins with its digest.

        Raises:
            DamagedFileError: The file is not as it was written.
            OSError: It is absent, or cannot be read.
        """
        content = self.path(key).read_bytes()
        if content[:_DIGEST_SIZE] != sha256(content[_DIGEST_SIZE:]).digest():
            raise DamagedFileError(self.path(key))
        return content[_DIGEST_SIZE:]


def prepare(config: TranslateConfig) -> None:
    """Set what a process needs before its first matrix product."""
    use_kernels(config.kernels)
    if config.threads is not None:
        torch.set_num_threads(config.threads)


def translate_parts(
    lines: LineTranslator,
    windows: Iterator[Window],
    directory: Path,
    progress: TranslationProgress,
) -> Generator[tuple[Window, dict[str, bytes]], None, None]:
    """Yield each window and its content for each output, read from the files of the part.

    Args:
        lines: Translates in this process; several processes have a copy each.
        windows: The parts; some are read ahead for each process.
        directory: Directory of the files; a part whose files exist is not translated again.
        progress: Counts the lines.

    Raises:
        ChildProcessError: A process has died.
    """
    total = Tally()
    for part in _finished(lines, (_Part(window, directory) for window in windows)):
        total.add(Tally.from_json(part.read(_TALLY)))
        texts = (line for line, _ in part.window.pairs)
        progress.advance(*texts, is_new=part.is_new)
        yield part.window, {key: part.read(key) for key in lines.outputs}
        if not lines.config.resume:
            for key in (*lines.outputs, _TALLY):
                part.path(key).unlink()
    lines.counts.tally = total
    lines.counts.report()


def _finished(lines: LineTranslator, parts: Iterator[_Part]) -> Iterator[_Part]:
    """Yield the parts in order, each as soon as its files exist."""
    number = lines.config.processes
    if number == 1:
        yield from (_translate(lines, part) for part in parts)
        return
    with _open_pool(lines) as pool:
        pending: deque[Future[_Part]] = deque()
        for part in parts:
            pending.append(pool.submit(_translate_here, part))
            if len(pending) == _READ_AHEAD * number:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()


def _translate(lines: LineTranslator, part: _Part) -> _Part:
    """Write the files of a part, unless they exist and are undamaged."""
    with contextlib.suppress(OSError, DamagedFileError):
        for key in (*lines.outputs, _TALLY):
            part.read(key)
        return part
    written = {key: bytearray() for key in lines.outputs}
    for _, _, contents in lines.translate(part.window):
        for key, added in contents.items():
            written[key] += added
    written[_TALLY] = bytearray(lines.counts.tally.to_json().encode("ascii"))
    lines.counts.tally.clear()
    with whole_files() as new_file:
        for key, content in written.items():
            new_file(part.path(key)).write(sha256(content).digest() + content)
    return part._replace(is_new=True)


_lines: list[LineTranslator] = []
"""The translator of this process, if `_open_pool` started the process."""


def _translate_here(part: _Part) -> _Part:
    [lines] = _lines
    return _translate(lines, part)


@contextlib.contextmanager
def _open_pool(lines: LineTranslator) -> Iterator[ProcessPoolExecutor]:
    """Start processes, each with a copy of the translator, and end them with the block.

    They end at once if the block ends with an error, such as an interrupt, or if this process ends
    for any reason.
    """
    number = lines.config.processes
    threads = max(1, torch.get_num_threads() // number)
    pool = ProcessPoolExecutor(
        number,
        # A fork would copy the locks of torch's threads.
        mp_context=multiprocessing.get_context("spawn"),
        initializer=_begin,
        initargs=(lines.config, threads, pickle.dumps(lines)),
    )
    try:
        # A terminal also sends Ctrl-C to the new processes, which ignore it and leave it to this
        # process.
        handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
        for _ in range(number):  # each call starts a process if none is idle
            pool.submit(os.getpid)
        signal.signal(signal.SIGINT, handler)
        yield pool
    except BaseException as error:
        for process in multiprocessing.active_children():
            process.kill()
        if isinstance(error, BrokenProcessPool):
            raise ChildProcessError(
                f"one of the processes={number} has died, perhaps because memory ran out; use "
                "fewer processes or a smaller batch_size"
            ) from error
        raise
    finally:
        pool.shutdown(cancel_futures=True)


def _begin(config: TranslateConfig, threads: int, pickled: bytes) -> None:
    """Prepare a new process: it keeps the translator, and ends with its parent process."""
    threading.Thread(target=_end_with_parent, daemon=True).start()
    keep_freed_memory()
    log_to_stderr()
    prepare(config)
    torch.set_num_threads(threads)
    load_plugins(config.plugins)
    _lines.append(pickle.loads(pickled))


def _end_with_parent() -> None:
    parent = multiprocessing.parent_process()
    assert parent is not None, "this process was started by another one"
    parent.join()
    os._exit(1)


@contextlib.contextmanager
def open_directory(config: TranslateConfig) -> Iterator[Path]:
    """Open the directory of the parts: `OUTPUT.partial` with resume=true, else a temporary one.

    `state.json` records what produced the parts in `OUTPUT.partial`: the keys of the command, and
    the content of the files that it reads. When the block ends without an error, the directory is
    deleted.

    Raises:
        ValueError: The directory belongs to another command or program, or is in use.
        OSError: A file cannot be read or written.
    """
    if not config.resume:
        with tempfile.TemporaryDirectory(prefix="seq2seq-") as name:
            yield Path(name)
        return
    [name] = config.output or [""]
    output = check_output(name, key="output")
    if output.exists() and not output.is_file():
        raise ValueError(f"output={name} is not a file, so resume=true cannot keep it")
    directory = output.with_name(f"{output.name}.partial")
    with DirectoryLock(directory, advice="wait for it, or choose another output"):
        state = directory / _STATE
        produced_by = _produced_by(config)
        _check(directory, produced_by)
        with whole_file(state) as file:  # it marks the directory as written by this program
            file.write(json.dumps(produced_by, indent=2).encode("ascii"))
        if finished := len(list(directory.glob(f"{_PART}*.output"))):
            logger.info("%s already has %s", directory, counted(finished, "part"))
        yield directory
        hidden = [each for each in directory.iterdir() if is_temporary(each)]
        for each in (*hidden, *directory.glob(f"{_PART}*"), state):
            each.unlink()
    with contextlib.suppress(OSError):  # it was deleted with the lock, or is in use again
        directory.rmdir()


def _check(directory: Path, produced_by: dict[str, str]) -> None:
    """Raise ValueError if the directory has parts of a different command."""
    state = directory / _STATE
    if not state.exists():
        if any(each.name != LOCK_NAME and not is_temporary(each) for each in directory.iterdir()):
            raise ValueError(
                f"{directory} was not written by this program; move it away or choose another "
                "output"
            )
        return
    try:
        before = dict(json.loads(state.read_bytes()))
    except (ValueError, TypeError) as error:
        raise ValueError(f"{state} is damaged; delete {directory} to start again") from error
    for key in sorted({*before, *produced_by}):
        if before.get(key) != produced_by.get(key):
            raise ValueError(
                f"{directory} was begun with another {key}; use the same, choose another output, "
                f"or delete {directory} to start again"
            )


def _produced_by(config: TranslateConfig) -> dict[str, str]:
    """Return what determines the output: values of keys, and digests of the files they name."""
    types = field_types(TranslateConfig)
    keys = [key for key, field_type in types.items() if Use.free not in field_type.marks]
    found: dict[str, object] = {key: getattr(config, key) for key in keys}
    for key in config.given(Use.read):
        found[key] = " ".join(_digest(name, key=key) for name in config.paths(key))
    return {key: str(value) for key, value in found.items() if value is not None}


def _digest(name: str, *, key: str) -> str:
    """Return the SHA-256 of a file, of a run's best checkpoint, or of the files in a folder.

    A name that does not exist as a path is returned unchanged.
    """
    path = expand_home(name, key=key)
    if not path.exists():
        return name
    if path.is_file():
        return file_sha256(path)
    if not path.is_dir():  # a pipe can be read only once
        raise ValueError(f"{key}={name} must be read twice with resume=true; give a file")
    best = path / "best.pt"
    files = [best] if best.is_file() else sorted(each for each in path.iterdir() if each.is_file())
    return " ".join(map(file_sha256, files))
