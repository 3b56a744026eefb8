"""Messy text: make a messy corpus, and measure what a model loses of messy text.

    python benchmarks/raw_text.py make train.de.gz train.en.gz my/raw --foreign train.fr.gz
    python -m seq2seq.cli.prepare input=my/raw/export.tsv 'columns=[de,en]' output=my/raw/corpus
    python benchmarks/raw_text.py measure checkpoints/NAME my/raw --folder my/exported

`make` damages clean German and English lines in the ways of an export, among them a header, CRLF,
markup, swapped and foreign sides, other spaces and letters in parts, and adds sentences with codes,
numbers and addresses. `measure` scores the clean test set with each kind of damage, counts the
spans that translations keep (other ones than in training) and the sentences of lines with several
that are lost, and compares the texts of the command, Python, the exported model, the page and the
service.
"""

import argparse
import gzip
import json
import random
import subprocess
import sys
import tempfile
import time
import unicodedata
import urllib.request
from collections.abc import Callable, Sequence
from itertools import islice
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from seq2seq import Translator
from seq2seq.evaluation.measures import score_texts
from seq2seq.export.translator import OnnxTranslator

SPANS: dict[str, tuple[Callable[[random.Random], str], str, str]] = {
    "small numbers": (
        lambda draw: f"{draw.randint(2, 99)}",
        "Tom hat {} Bilder.",
        "Tom has {} pictures.",
    ),
    "amounts": (
        lambda draw: f"{draw.randint(2, 9999)},{draw.randint(10, 99)} \u20ac",
        "Das kostet heute {}.",
        "That costs {} today.",
    ),
    "codes": (
        lambda draw: f"{draw.choice(['KR', 'MT'])}-{draw.randint(100, 9999)}/{draw.choice('abc')}",
        "Artikel {} ist nicht da.",
        "Item {} is not here.",
    ),
    "e-mail addresses": (
        lambda draw: f"anna{draw.randint(1, 999)}@firma{draw.randint(1, 99)}.de",
        "Schreib bitte an {}.",
        "Please write to {}.",
    ),
    "URLs": (
        lambda draw: f"https://www.firma.de/p/{draw.randint(1, 999)}?x={draw.randint(1, 99)}",
        "Alles steht auf {}.",
        "Everything is on {}.",
    ),
    "placeholders": (
        lambda draw: draw.choice(["%s", f"{{{draw.randint(0, 9)}}}", f"%(n{draw.randint(1, 9)})s"]),
        "Die Datei {} fehlt.",
        "The file {} is missing.",
    ),
    "telephone numbers": (
        lambda draw: f"+49 {draw.randint(30, 99)} {draw.randint(1000, 99999)}",
        "Ruf mich unter {} an.",
        "Call me at {}.",
    ),
    "surnames": (
        lambda draw: "".join(
            map(draw.choice, (["Kowal", "Brenn", "Lopat"], "aeiou", ["ski", "ke"]))
        ),
        "{} wohnt in Berlin.",
        "{} lives in Berlin.",
    ),
}
"""Kinds of spans: how to make one, and a sentence with one in both languages."""
WITHOUT_WORDS = ["\U0001f600", "---", "12:30", "https://example.org/x?y=1", "12.5.2024"]


def main(argv: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(required=True)
    make = commands.add_parser("make", help="write a messy corpus, and clean pairs to test on")
    make.add_argument("source", type=Path, help="a file of clean German sentences")
    make.add_argument("target", type=Path, help="a file of their English translations")
    make.add_argument("output", type=Path, help="a directory")
    make.add_argument("--foreign", type=Path, help="a file of another language")
    make.add_argument("--pairs", type=int, default=24_000, help="number of clean pairs")
    make.add_argument("--test", type=int, default=500, help="clean pairs for the test set")
    make.set_defaults(run=make_corpus)
    measure = commands.add_parser("measure", help="measure what a model loses")
    measure.add_argument("checkpoint", help="a run's directory or a file")
    measure.add_argument("output", type=Path, help="the directory that `make` wrote")
    measure.add_argument("--folder", help="what seq2seq-export wrote from it")
    measure.add_argument("--page", type=Path, help="what it wrote with format=web; needs Chromium")
    measure.add_argument("--lines", type=int, default=1000, help="lines with several sentences")
    measure.set_defaults(run=measure_losses)
    options = parser.parse_args(argv)
    options.run(options)


def read(path: Path) -> list[str]:
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as file:
        return [line.rstrip("\n") for line in file]


def make_corpus(options: argparse.Namespace) -> None:
    pairs = list(zip(read(options.source), read(options.target), strict=True))
    draw = random.Random(1)
    draw.shuffle(pairs)
    test, clean = pairs[: options.test], pairs[options.test :][: options.pairs]
    some = len(clean) // 100
    foreign = read(options.foreign) if options.foreign else ["Le chien dort dans le jardin."]
    damage: list[tuple[int, Callable[[str, str], tuple[str, str]]]] = [
        (some, lambda de, _: (de, "")),
        (some, lambda de, en: (f"&quot;{de}&quot;", f"&quot;{en}&quot;")),
        (some, lambda de, en: (f"<b>{de}</b>", en)),
        (2 * some, lambda de, en: (en, de)),
        (some, lambda de, _: (de, de)),
        (some, lambda de, _: (de, draw.choice(foreign))),
        (5 * some, lambda de, en: tuple(unicodedata.normalize("NFD", each) for each in (de, en))),
        (some, lambda de, en: (de.replace(" ", "\u00a0", 1), en)),
        (some, lambda de, en: (f"{de} \U0001f600", f"{en} \U0001f600")),
        (some, lambda de, en: (de.upper(), en.upper())),
        (some // 5, lambda de, _: (de, draw.choice(clean)[1])),
        (some // 5, lambda de, en: (" ".join([de] * 40), " ".join([en] * 40))),
    ]
    rows = clean + draw.sample(clean, 6 * some)
    for number, change in damage:
        rows += [change(*pair) for pair in draw.sample(clean, number)]
    for create, german, english in SPANS.values():
        spans = (create(draw) for _ in range(max(1, some // 3)))
        rows += [(german.format(span), english.format(span)) for span in spans]
    draw.shuffle(rows)
    options.output.mkdir(parents=True)
    table = "".join(f"{number}\t{de}\t{en}\r\n" for number, (de, en) in enumerate(rows))
    (options.output / "export.tsv").write_text(f"\ufeffid\tde\ten\r\n{table}", newline="")
    for side, name in enumerate(("test.de", "test.en")):
        (options.output / name).write_text("".join(f"{pair[side]}\n" for pair in test))
    print(f"wrote {options.output}/export.tsv with {len(rows)} pairs, and test.de and test.en")


def measure_losses(options: argparse.Namespace) -> None:
    sources, references = (read(options.output / name) for name in ("test.de", "test.en"))
    draw = random.Random(2)
    cases = {
        "clean": sources,
        "a no-break space in each": [each.replace(" ", "\u00a0", 1) for each in sources],
        "letters in parts (NFD)": [unicodedata.normalize("NFD", each) for each in sources],
        "capitals": [each.upper() for each in sources],
        "several sentences": [
            " ".join(draw.sample(sources, draw.randint(2, 5))) for _ in range(options.lines)
        ],
        "text without words": WITHOUT_WORDS,
    }
    spans = {name: [create(draw) for _ in range(50)] for name, (create, _, _) in SPANS.items()}
    cases |= {name: [SPANS[name][1].format(span) for span in spans[name]] for name in spans}
    translator = Translator.load(options.checkpoint, device="cpu")
    texts = {name: [each.text for each in translator(lines)] for name, lines in cases.items()}
    single = dict(zip(sources, texts["clean"], strict=True))

    print("| text | lines | kept or BLEU |\n|---|--:|--:|")
    for name, lines in cases.items():
        if name in spans:
            kept = sum(span in text for span, text in zip(spans[name], texts[name], strict=True))
            result = f"{kept} of {len(lines)}"
        elif name == "several sentences":
            whole = sum(
                all(text.count(single[each]) for each in single if each in line)
                for line, text in zip(lines, texts[name], strict=True)
            )
            result = f"{whole} of {len(lines)}"
        elif name == "text without words":
            result = f"{sum(map(str.__eq__, lines, texts[name]))} of {len(lines)}"
        else:
            likewise = map(str.upper, references) if name == "capitals" else references
            result = f"{score_texts(texts[name], [*likewise])['bleu']:.2f}"
        print(f"| {name} | {len(lines)} | {result} |")

    everything = [line for lines in cases.values() for line in lines]
    expected = [text for each in texts.values() for text in each]
    print("\n| translator | texts that differ from Python's |\n|---|--:|")
    for name, found in other_translators(options, everything):
        print(f"| {name} | {sum(map(str.__ne__, expected, found))} of {len(expected)} |")


def other_translators(
    options: argparse.Namespace, lines: list[str]
) -> "list[tuple[str, list[str]]]":
    """Return the texts of the command, the exported model, the page and the service."""
    root = Path(__file__).parents[1]
    command = [sys.executable, str(root / "translate.py"), f"checkpoint={options.checkpoint}"]
    text = "".join(f"{line}\n" for line in lines)
    done = subprocess.run(
        [*command, "device=cpu"], input=text, capture_output=True, text=True, check=True
    )
    found = [("command", done.stdout.split("\n")[:-1])]
    if options.folder:
        exported = OnnxTranslator.load(options.folder, threads=1)
        found.append(("exported model", [each.text for each in exported(lines)]))
    if options.page:
        found.append(("page", page_texts(options.page.resolve(), lines)))
    command = [sys.executable, "-m", "seq2seq.cli.serve", f"checkpoint={options.checkpoint}"]
    command += ["device=cpu", "port=0", "timeout=600"]
    command += ["max_characters=1000000"]
    answers, waiting = [], iter(lines)
    with subprocess.Popen(command, cwd=root, stderr=subprocess.PIPE, text=True) as service:
        assert service.stderr
        try:
            words = (word for line in service.stderr for word in line.split())
            address = next(word for word in words if "://" in word)
            while few := list(islice(waiting, 50)):
                body = json.dumps({"q": few, "source": "de", "target": "en"}).encode()
                headers = {"Content-Type": "application/json"}
                request = urllib.request.Request(f"{address}translate", body, headers)
                with urllib.request.urlopen(request) as answer:
                    answers += json.load(answer)["translatedText"]
        finally:
            service.terminate()
    return [*found, ("service", answers)]


def page_texts(page: Path, lines: list[str]) -> list[str]:
    """Return the texts of a page that translates, in a browser without a window."""
    from tests.headless_browser import open_browser, open_page

    script = """const [lines, done] = arguments;
        (async () => {
          const texts = [];
          for (const line of lines) {
            const { hypotheses } = await translator.translateText(line, model.decoding);
            texts.push(hypotheses[0]?.text ?? "");
          }
          return texts;
        })().then(done, (error) => done(String(error)));"""
    found: list[str] = []
    with tempfile.TemporaryDirectory() as profile:
        for browser in open_browser(Path(profile)):
            open_page(browser, page)
            while browser.execute_script("return main.ariaBusy !== 'false' || isBusy"):
                time.sleep(0.1)
            browser.set_script_timeout(600)
            waiting = iter(lines)
            while few := list(islice(waiting, 50)):
                found += browser.execute_async_script(script, few)
    return found


if __name__ == "__main__":
    main()
