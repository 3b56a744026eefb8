"""Read files that torch.save wrote: whole, or not at all."""

import zipfile
from pathlib import Path
from typing import IO

import torch


class DamagedFileError(ValueError):
    """A file has other content than was written to it."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} is damaged or was not written by this program")


def load_archive(path: Path) -> object:
    """Read the tensors and plain types of a file onto the CPU; no code in it is run.

    Raises:
        OSError: The file cannot be read.
        MemoryError: The file is larger than the memory.
        DamagedFileError: A checksum is wrong, or torch.save did not write the file.
    """
    path.stat()  # a missing file is not a damaged one
    if not path.is_file():  # a named pipe would be awaited for ever
        raise DamagedFileError(path)
    with path.open("rb") as file:  # an error here is not one of the content
        try:
            _check_archive(file)
            content: object = torch.load(path, map_location="cpu", weights_only=True)
        except MemoryError:
            raise
        # zipfile, torch and pickle raise more than ten types of errors for a damaged file.
        except Exception as error:
            raise DamagedFileError(path) from error
    return content


def _check_archive(file: IO[bytes]) -> None:
    """Compare the checksums that torch.save writes and torch.load ignores."""
    with zipfile.ZipFile(file) as archive:
        if any(each.compress_type != zipfile.ZIP_STORED for each in archive.infolist()):
            raise ValueError("torch.save does not compress")
        if archive.testzip() is not None:
            raise ValueError("wrong checksum")
