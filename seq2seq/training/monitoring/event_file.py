"""Write TensorBoard's events without a thread, so that an error is raised where it occurs."""

import io
import os
import secrets
import struct
import time
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.record_writer import RecordWriter

from seq2seq.files.atomic import create_file

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_SIZE = struct.Struct(">II")
"""Width and height in a PNG file, after 16 bytes."""


class EventFile:
    """Events of one process, in a file that TensorBoard reads."""

    def __init__(self, file: BinaryIO) -> None:
        """Begin a file of events."""
        self._file = file
        self._records = RecordWriter(file)
        self._write(Event(file_version="brain.Event:2"))

    def add(self, summary: Summary, update: int) -> None:
        """Add a point, text or image of an update."""
        self._write(Event(summary=summary, step=update))

    def replace_from(self, update: int) -> None:
        """Let TensorBoard drop the points of earlier files from an update on."""
        self._write(Event(session_log=SessionLog(status=SessionLog.START), step=update))

    def flush(self) -> None:
        """Hand what was added to the operating system; a killed process loses the rest."""
        self._file.flush()

    def close(self) -> None:
        """Flush and close the file."""
        self._file.close()

    def _write(self, event: Event) -> None:
        event.wall_time = time.time()
        self._records.write(event.SerializeToString())


def new_event_file(folder: Path) -> EventFile:
    """Create a file of events under a name that follows those of earlier ones."""
    folder.mkdir(parents=True, exist_ok=True)
    return EventFile(create_file(folder / event_file_name()))


def event_file_name(suffix: str = "") -> str:
    """Return a new name; TensorBoard reads the files of a folder in the order of their names."""
    return f"events.out.tfevents.{time.time():017.6f}.{os.getpid()}-{secrets.token_hex(2)}{suffix}"


def image_summary(tag: str, figure: "Figure") -> Summary:
    """Return a figure as an image."""
    png = io.BytesIO()
    figure.savefig(png, format="png")
    width, height = _SIZE.unpack_from(png.getbuffer(), offset=16)
    image = Summary.Image(
        width=width, height=height, colorspace=4, encoded_image_string=png.getvalue()
    )
    return Summary(value=[Summary.Value(tag=tag, image=image)])
