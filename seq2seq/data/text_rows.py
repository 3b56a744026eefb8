"""Store lines of text in two flat files and map them into memory."""

import itertools
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from seq2seq.data.id_rows import Numbers, map_array
from seq2seq.files.atomic import create_file


@dataclass
class TextRows:
    """Lines of text of different lengths, concatenated as UTF-8."""

    content: npt.NDArray[np.uint8]
    offsets: Numbers
    """Line i is content[offsets[i]:offsets[i + 1]]."""

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def lines(self, start: int, end: int) -> list[str]:
        """Return the lines from `start` to before `end`."""
        offsets = self.offsets[start : end + 1]
        content = self.content[offsets[0] : offsets[-1]].tobytes()
        bounds = itertools.pairwise((offsets - offsets[0]).tolist())
        return [content[first:last].decode("utf-8") for first, last in bounds]

    @classmethod
    def open(cls, folder: Path, side: str) -> "TextRows":
        """Map the files that a `TextWriter` wrote."""
        return cls(
            map_array(folder / f"{side}.text", np.uint8),
            map_array(folder / f"{side}.ends", np.int64),
        )


class TextWriter:
    """Writer of the two files of one side of a corpus."""

    def __init__(self, folder: Path, side: str) -> None:
        """Create the files in a folder; their names begin with `side`."""
        self._content = create_file(folder / f"{side}.text")
        self._ends = create_file(folder / f"{side}.ends")
        self._ends.write(np.zeros(1, dtype=np.int64).tobytes())
        self._end = 0

    def __enter__(self) -> "TextWriter":
        return self

    def __exit__(self, *exception: object) -> None:
        self._content.close()
        self._ends.close()

    def write(self, line: str) -> None:
        """Append a line, which may contain line ends."""
        content = line.encode("utf-8")
        self._end += len(content)
        self._content.write(content)
        self._ends.write(np.int64(self._end).tobytes())
