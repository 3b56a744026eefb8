"""Store rows of token ids in two flat files and map them into memory."""

from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from seq2seq.files.atomic import create_file

Ids = npt.NDArray[np.int32]
Numbers = npt.NDArray[np.int64]

_Scalar = TypeVar("_Scalar", np.uint8, np.int32, np.int64)


@dataclass
class IdRows:
    """Rows of ids of different lengths, concatenated in a flat array."""

    ids: Ids
    offsets: Numbers
    """Row i is ids[offsets[i]:offsets[i + 1]]."""
    lengths: Numbers = field(init=False)

    def __post_init__(self) -> None:
        self.lengths = np.diff(self.offsets)

    def __getitem__(self, row: int) -> Ids:
        return self.ids[self.offsets[row] : self.offsets[row + 1]]

    @classmethod
    def open(cls, folder: Path, side: str) -> "IdRows":
        """Map the files that a `RowWriter` wrote."""
        return cls(
            map_array(folder / f"{side}.ids", np.int32),
            map_array(folder / f"{side}.offsets", np.int64),
        )


class RowWriter:
    """Writer of the two files of one side of a corpus."""

    def __init__(self, folder: Path, side: str) -> None:
        """Create the files in a folder; their names begin with `side`."""
        self._ids = create_file(folder / f"{side}.ids")
        self._offsets = create_file(folder / f"{side}.offsets")
        self._offsets.write(np.zeros(1, dtype=np.int64).tobytes())
        self._end = 0

    def __enter__(self) -> "RowWriter":
        return self

    def __exit__(self, *exception: object) -> None:
        self._ids.close()
        self._offsets.close()

    def write(self, rows: list[list[int]]) -> Ids:
        """Append rows; return their concatenated ids."""
        ids = np.fromiter(chain.from_iterable(rows), dtype=np.int32)
        offsets = self._end + np.cumsum([len(row) for row in rows], dtype=np.int64)
        self._ids.write(ids.tobytes())
        self._offsets.write(offsets.tobytes())
        self._end += len(ids)
        return ids


def map_array(path: Path, dtype: type[_Scalar]) -> npt.NDArray[_Scalar]:
    """Map a file of numbers into memory, read-only."""
    if path.stat().st_size == 0:
        return np.empty(0, dtype=dtype)  # an empty file cannot be mapped
    # As a plain array, since indexing a memmap takes several times as long.
    return np.asarray(np.memmap(path, dtype=dtype, mode="r"))
