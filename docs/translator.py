"""The translator on the documentation's first page, whose model is kept in `translator/`.

    seq2seq-export checkpoint=checkpoints/grammar-additive output=FOLDER precision=int8
    python docs/translator.py FOLDER

keeps the model that `make train` trains, as int8 graphs of 2.7 MB, without its float weights. The
build of the documentation writes the page, with the scripts and the style of today.
"""

import shutil
import sys
from pathlib import Path

from seq2seq.export.folder import read_runtime, write_runtime
from seq2seq.export.web_page import write_page
from seq2seq.export.web_runtime import load_web_runtime

KEPT = Path(__file__).parent / "translator"
CACHE = Path(__file__).parents[1] / "data/cache"
EXAMPLES = (
    "Das M\u00e4dchen ist jung.",
    "Der Hund sieht die kleine Katze nicht.",
    "Obwohl die M\u00fctter tanzen, muss er meinem Lehrer vier Blumen geben.",
)


def keep(folder: Path) -> None:
    """Copy what a page needs of an exported model."""
    runtime = read_runtime(folder)
    KEPT.mkdir(exist_ok=True)
    for name in runtime.files:
        shutil.copyfile(folder / name, KEPT / name)
    write_runtime(KEPT, runtime)


def write(path: Path) -> None:
    """Write the page."""
    path.parent.mkdir(exist_ok=True)
    write_page(KEPT, path, runtime=load_web_runtime(CACHE), examples=EXAMPLES)


if __name__ == "__main__":
    keep(Path(sys.argv[1]))
