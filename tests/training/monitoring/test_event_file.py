import struct
import zlib
from pathlib import Path

import pytest
from matplotlib.figure import Figure
from tensorboard.backend.event_processing.event_file_loader import EventFileLoader
from torch.utils.tensorboard.summary import scalar

from seq2seq.files.atomic import create_file
from seq2seq.training.monitoring.event_file import (
    EventFile,
    event_file_name,
    image_summary,
    new_event_file,
)


def read(path: Path) -> list[tuple[int, str]]:
    """Return step and tag of each value, as TensorBoard reads them."""
    events = EventFileLoader(str(path)).Load()
    return [(event.step, value.tag) for event in events for value in event.summary.value]


def test_tensorboard_reads_what_was_flushed_before_a_kill(tmp_path):
    file = new_event_file(tmp_path / "board")
    file.add(scalar("a", 1.5), 3)
    file.flush()
    [path] = (tmp_path / "board").iterdir()

    assert read(path) == [(3, "a")]  # the file is still open
    file.close()


def test_the_names_of_later_files_follow():
    first, second = event_file_name(), event_file_name(".results")

    assert first < second
    assert first.startswith("events.out.tfevents.")
    assert second.endswith(".results")


def test_an_image_has_the_size_of_its_figure():
    summary = image_summary("map", Figure(figsize=(3, 2), dpi=50))

    [value] = summary.value
    assert (value.image.width, value.image.height) == (150, 100)
    header = value.image.encoded_image_string[12:29]
    assert header == b"IHDR" + struct.pack(">II", 150, 100) + header[12:]
    assert (
        zlib.crc32(header)
        == struct.unpack_from(">I", value.image.encoded_image_string, offset=29)[0]
    )


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a full device")
def test_a_full_disk_is_an_error_of_the_call_that_meets_it():
    file = EventFile(create_file(Path("/dev/full")))

    with pytest.raises(OSError, match="/dev/full") as raised:
        file.close()

    assert raised.value.filename == "/dev/full"
