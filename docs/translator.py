"""The translator on the documentation's first page, whose model is checkpoints/everyday-de-en.

The build of the documentation writes the page, with the scripts and the style of today.
"""

from pathlib import Path

from seq2seq.export.web_page import write_page
from seq2seq.export.web_runtime import load_web_runtime

MODEL = Path(__file__).parents[1] / "checkpoints/everyday-de-en"
CACHE = Path(__file__).parents[1] / "data/cache"
EXAMPLES = (
    "Ich wei\u00df nicht, was ich sagen soll.",
    "Mein Bruder arbeitet in einem Krankenhaus.",
    "Er hat das Buch gestern gelesen.",
    "Kannst du mir bitte helfen?",
)


def write(path: Path) -> None:
    """Write the page."""
    path.parent.mkdir(exist_ok=True)
    write_page(MODEL, path, runtime=load_web_runtime(CACHE), examples=EXAMPLES)
