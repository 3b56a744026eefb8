"""Print the rows of a spreadsheet as lists in JSON: `python spreadsheet.py FILE`.

This is a process of its own, because a small file can ask for any amount of memory. It imports
nothing of the package, which would take most of the memory that the process may use.
"""

import contextlib
import json
import sys
import zipfile

from python_calamine import CalamineWorkbook

_MOST_MEMORY = 2 << 30
"""Number of bytes that the process may use."""
_LARGEST = 512 << 20
"""Maximum number of bytes of the unpacked spreadsheet."""


def main(path: str) -> None:
    """Print the rows of the first sheet with text, and name other such sheets on stderr."""
    with contextlib.suppress(ModuleNotFoundError):  # Windows has no limits
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (_MOST_MEMORY, _MOST_MEMORY))
    with zipfile.ZipFile(path) as archive:
        if sum(part.file_size for part in archive.infolist()) > _LARGEST:
            raise ValueError(f"it has more than {_LARGEST >> 20} MiB")
    book = CalamineWorkbook.from_path(path)
    first, others = None, []
    for name in book.sheet_names:
        sheet = book.get_sheet_by_name(name)
        if sheet.height and first is None:
            first = sheet
            for row in sheet.iter_rows():
                print(json.dumps(list(map(_as_text, row))))
        elif sheet.height:
            others.append(name)
    if first is not None and others:
        print(f"only the sheet {first.name!r} is read, not {str(others)[1:-1]}", file=sys.stderr)


def _as_text(value: object) -> str:
    """Return a value as a spreadsheet shows it without a format: 7 for 7.0."""
    return str(int(value)) if isinstance(value, float) and value.is_integer() else str(value)


if __name__ == "__main__":
    try:
        main(sys.argv[1])
    except Exception as error:  # each kind of damage has a type of its own
        sys.exit(f"{type(error).__name__}: {error}".partition("\n")[0])
