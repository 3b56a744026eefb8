"""Split a text or HTML into sentences, and replace the sentences by their translations.

A sentence of HTML may contain inline tags; attention tells where they go in the translation.
"""

import html
import html.entities
import re
import warnings
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from itertools import chain, groupby, islice, takewhile, zip_longest
from typing import TYPE_CHECKING, NamedTuple, TypeGuard

import numpy as np

from seq2seq.inference.translations import TranslatedHypothesis, Translation
from seq2seq.text.rules import lowered
from seq2seq.text.sentences import join_sentences

if TYPE_CHECKING:
    from bs4 import BeautifulSoup
    from bs4.element import PageElement, Tag

_LINE_END = re.compile(r"(\r\n|\n|\r)")
SplitLine = Callable[[str], Sequence[str]]
"""Function that returns the sentences of a line."""
_SPACE = " \t\n\f\r"
_CODE = frozenset({"code", "kbd", "math", "pre", "samp", "textarea", "var"})
"""Elements whose text is not translated."""
_INLINE = frozenset({
    "a", "abbr", "acronym", "b", "bdi", "bdo", "big", "cite", "data", "del", "dfn", "em", "font",
    "i", "ins", "label", "mark", "nobr", "q", "s", "small", "span", "strike", "strong", "sub",
    "sup", "time", "tt", "u",
})  # fmt: skip
"""Elements that are part of a sentence."""
_MOST_NODES = 100
"""An inline tag with this many nodes or more counts as a block."""
_ATTRIBUTES = ("alt", "title")
_CHUNK = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]|\w+|\[\d+\]|\s+|[^\w\s]")
"""A word, a Chinese or Japanese character, a footnote, a punctuation mark, or white space."""
_WORD = re.compile(r"\[?\w")

_TAG = re.compile(
    r"<!--.*?-->|<(script|style)\b.*?</\1|(?P<tag><[a-z][^>]*>)|&\w+;", re.DOTALL | re.I
)
"""A comment, a script, a style, another tag, or an entity."""
_ENTITY = re.compile(r"&\w+;")
_QUERY_NAME = re.compile("&(?=[A-Za-z0-9]+=)")

Path = tuple["Tag", ...]
"""The inline tags around a piece of text, outermost first."""
Offsets = list[tuple[int, int]]
"""For each token of a translation, its place in the text and the place of its source token."""


class SplitText(NamedTuple):
    """A text as lines of sentences, with the original line breaks."""

    lines: list[Sequence[str]]
    """Sentences of each line; empty for a blank line."""
    ends: list[str]
    """Line break after each line, "" for the last line."""

    @property
    def sentences(self) -> list[str]:
        """Return the sentences of all lines."""
        return [sentence for line in self.lines for sentence in line]

    def join(self, translations: Iterable[str], offsets: Iterable[Offsets] = ()) -> str:
        """Return the text with the translation of each sentence in its place.

        Example:
            >>> from seq2seq.text.sentences import split_sentences
            >>> text = split_text("Ja. Nein.\\r\\n\\nJa.", split_sentences)
            >>> text.sentences
            ['Ja.', 'Nein.', 'Ja.']
            >>> text.join(["Yes.", "No.", "Yes."])
            'Yes. No.\\r\\n\\nYes.'
        """
        remaining = iter(translations)
        joined = []
        for line, end in zip(self.lines, self.ends, strict=True):
            found = [next(remaining) for _ in line]
            joined.append(join_sentences(found) + end)
        return "".join(joined)


def split_text(text: str, split: SplitLine) -> SplitText:
    """Split a text at its line ends, and its lines into sentences."""
    pieces = [*_LINE_END.split(text), ""]
    lines = [split(line) if line.strip() else () for line in pieces[::2]]
    return SplitText(lines, pieces[1::2])


class _Run(NamedTuple):
    """Adjacent texts and inline tags that form whole sentences."""

    nodes: list["PageElement"]
    """The nodes that the translation replaces."""
    paths: list[list[Path]]
    """For each sentence, the tags around each of its characters."""
    edges: tuple[str, str]
    """White space before and after the text."""


class SplitHtml:
    """HTML whose texts are split into sentences; everything else stays.

    Inline tags such as `<b>` are part of a sentence. In the translation, each tag is around the
    words that attend to the words inside it. Scripts, styles, comments, code, and elements with
    `translate="no"` or the class `notranslate` stay; a comment or `<wbr>` inside a sentence goes to
    its end. The texts of `alt` and `title` are translated.

    Raises:
        ValueError: The text cannot be read as HTML.

    Example:
        >>> text = SplitHtml("<p>Ja &amp; <b>nein</b>.<br/> Ja.</p>", lambda line: [line])
        >>> text.sentences
        ['Ja & nein.', 'Ja.']
        >>> text.join(["Yes < no.", "Yes."])
        '<p>Yes &lt; <b>no</b>.<br/> Yes.</p>'
    """

    def __init__(self, text: str, split: SplitLine) -> None:
        self._soup = _parse(text)
        self._split = split
        self._runs: list[_Run] = []
        self._attributes: list[tuple[Tag, str, int]] = []
        self.sentences: list[str] = []
        self._read()

    def join(self, translations: Iterable[str], offsets: Iterable[Offsets] = ()) -> str:
        """Return the HTML with the translation of each sentence in its place.

        A sentence with an empty translation stays, because its tags need a text.

        Args:
            translations: One for each sentence.
            offsets: Those of each sentence, or none, which keeps the order of words.
        """
        remaining = zip_longest(self.sentences, translations, offsets)
        for tag, name, number in self._attributes:
            found = islice(remaining, number)
            tag[name] = join_sentences(each or sentence for sentence, each, _ in found)
        # A run may be joined again with other translations, so it must refer to the new nodes.
        for place, run in enumerate(self._runs):
            pieces: list[tuple[str, Path]] = []
            for paths in run.paths:
                sentence, translation, own_offsets = next(remaining)
                if not translation:
                    translation, own_offsets = sentence, None
                placed: list[tuple[str, Path]] = [(translation, ())]
                if any(paths):
                    order = own_offsets or _in_order(sentence, translation)
                    placed = _place(sentence, translation, paths, order)
                pieces = _joined(pieces, placed)
            self._runs[place] = run._replace(nodes=self._replace(run, pieces))
        return str(self._soup)

    def _read(self) -> None:
        """Find the attributes, then the runs in the order of the text."""
        waiting: list[Tag] = [self._soup]
        tags: list[Tag] = []
        runs: list[list[PageElement]] = []
        while waiting:
            parent = waiting.pop()
            tags.append(parent)
            blocks: list[Tag] = []
            for is_inline, group in groupby(parent.children, _is_inline):
                nodes = list(group)
                inner = [node for node in nodes if _is_translated(node)]
                if is_inline:
                    visible = [
                        place
                        for place, node in enumerate(nodes)
                        if not _is_hidden(node) and node.get_text().strip(_SPACE)
                    ]
                    runs.append(nodes[visible[0] : visible[-1] + 1] if visible else [])
                    for tag in inner:
                        tags += (tag, *tag.find_all())
                else:
                    blocks += inner
            waiting += reversed(blocks)
        for tag in tags:
            self._add_attributes(tag)
        for nodes in runs:
            self._add_run(nodes)

    def _add_attributes(self, tag: "Tag") -> None:
        for name in _ATTRIBUTES:
            value = tag.get(name)
            if isinstance(value, str) and value.strip():
                sentences = [*self._split(value.strip())]
                self._attributes.append((tag, name, len(sentences)))
                self.sentences += sentences

    def _add_run(self, nodes: list["PageElement"]) -> None:
        whole = ""
        all_paths: list[Path] = []
        for text, path in _texts(nodes, ()):
            whole += text
            all_paths += [path] * len(text)
        text = whole.strip()
        if not text:
            return
        before, _, after = whole.partition(text)
        kept = [
            place
            for place in range(len(before), len(whole) - len(after))
            if whole[place] not in _SPACE or whole[place - 1] not in _SPACE
        ]
        text = "".join(" " if whole[place] in _SPACE else whole[place] for place in kept)
        paths: list[list[Path]] = []
        end = 0
        for sentence in map(str.strip, self._split(text)):
            rest = sentence
            while (start := text.find(rest, end)) < 0:  # a symbol is put before each sentence
                rest = rest.partition(" ")[2]
            end = start + len(rest)
            own = [all_paths[place] for place in kept[start:end]]
            paths.append(own[:1] * (len(sentence) - len(rest)) + own)
            self.sentences.append(sentence)
        self._runs.append(_Run(nodes, paths, (before, after)))

    def _replace(self, run: _Run, pieces: list[tuple[str, Path]]) -> list["PageElement"]:
        """Put pieces of text, with copies of the tags around them, in the place of a run."""
        from bs4.element import NavigableString

        new: list[PageElement] = []
        open_tags: list[tuple[Tag, Tag]] = []  # the tag in the run, and its copy
        first, last = run.edges
        hidden = [each for node in run.nodes for each in _with_inner(node) if _is_hidden(each)]
        for text, path in ((first, ()), *pieces, (last, ())):
            depth = len(_shared(path, [tag for tag, _ in open_tags]))
            del open_tags[depth:]
            for tag in path[depth:]:
                copy = tag.copy_self()
                (open_tags[-1][1].append if open_tags else new.append)(copy)
                open_tags.append((tag, copy))
            if text:
                (open_tags[-1][1].append if open_tags else new.append)(NavigableString(text))
        run.nodes[0].insert_before(*new)
        for node in run.nodes:
            node.extract()
        if hidden:
            new[-1].insert_after(*hidden)
        return [*new, *hidden]


def _parse(text: str) -> "BeautifulSoup":
    import bs4  # takes 0.15 s, which is wasted if no client sends HTML

    # After the last ">" there is only text. The parser would search it for the end of each tag, in
    # quadratic time, and lose an "&" near the end.
    tags, end, rest = text.rpartition(">")
    tags = _TAG.sub(_with_escaped_names, tags + end)
    rest = html.unescape(_ENTITY.sub(_with_escaped_names, rest))
    markup = tags + html.escape(rest, quote=False)
    with warnings.catch_warnings():
        # The text may look like XML or a path.
        warnings.simplefilter("ignore", bs4.UnusualUsageWarning)
        try:
            return bs4.BeautifulSoup(markup, "html.parser")
        except bs4.ParserRejectedMarkup as error:
            raise ValueError("not HTML") from error


def _with_escaped_names(match: re.Match[str]) -> str:
    """Escape `&` before names that are none of HTML, and before those in the URLs of a tag.

    The parser would take `R&D;` for `R&D`, and `&section=` for `&sect;ion=`.
    """
    found = match[0]
    if found[0] == "&":
        return found if found[1:] in html.entities.html5 else f"&amp;{found[1:]}"
    return _QUERY_NAME.sub("&amp;", found) if match["tag"] else found


def _is_translated(node: "PageElement") -> "TypeGuard[Tag]":
    from bs4.element import Tag

    return isinstance(node, Tag) and not (
        node.name in _CODE
        or node.get("translate") == "no"
        or "notranslate" in (node.get_attribute_list("class") or [])
    )


def _is_inline(node: "PageElement") -> bool:
    """Return whether a node is text, or an inline tag around text and other inline tags."""
    from bs4.element import NavigableString

    nodes = list(islice(_with_inner(node), _MOST_NODES + 1))
    return len(nodes) <= _MOST_NODES and all(
        type(each) is NavigableString  # neither a comment nor a script, which are kinds of it
        or _is_hidden(each)
        or (_is_translated(each) and each.name in _INLINE and each.get_text())
        for each in nodes
    )


def _with_inner(node: "PageElement") -> Iterable["PageElement"]:
    from bs4.element import Tag

    return chain((node,), node.descendants if isinstance(node, Tag) else ())


def _is_hidden(node: "PageElement") -> bool:
    """Return whether a node inside a sentence shows nothing."""
    from bs4.element import Comment, Tag

    return isinstance(node, Comment) or (isinstance(node, Tag) and node.name == "wbr")


def _texts(nodes: Iterable["PageElement"], path: Path) -> Iterable[tuple[str, Path]]:
    """Yield the texts of inline nodes with the tags around them."""
    from bs4.element import Tag

    for node in nodes:
        if isinstance(node, Tag):
            yield from _texts(node.children, (*path, node))
        elif not _is_hidden(node):
            yield str(node), path


def _place(source: str, target: str, paths: list[Path], offsets: Offsets) -> list[tuple[str, Path]]:
    """Give each word of a translation the tags of the source word that it attends to.

    A token of several chunks, such as a time or an address, gets the tags of one source token. A
    word of the source with tags inside, such as `CO<sub>2</sub>`, has them in the translation too.
    """
    words = [(match[0], paths[slice(*match.span())]) for match in _CHUNK.finditer(source)]
    split = {word: own for word, own in words if any(path is not own[0] for path in own)}
    chunks: list[str] = []
    found: list[Path | None] = []
    start = 0
    sources: list[int] = []
    starts = [own for own, _ in offsets]
    for chunk in (match[0] for match in _CHUNK.finditer(target)):
        end = start + len(chunk)
        tokens = slice(bisect_left(starts, start), bisect_left(starts, end))
        inside = [place for _, place in offsets[tokens]]
        sources = inside or sources[-1:]
        is_word = _WORD.match(chunk) or not (inside or chunk.isspace())
        path = paths[min(sources[0], len(paths) - 1)] if is_word and sources else None
        if any(_is_note(tag) and chunk not in tag.get_text() for tag in path or ()):
            path = None
        chunks += chunk if chunk in split else [chunk]
        found += split.get(chunk, [path])
        start = end
    _place_lost_tags(source, paths, chunks, found)
    return list(zip(chunks, _filled(found, paths[0], paths[-1]), strict=True))


def _is_note(tag: "Tag") -> bool:
    """Return whether a tag is around a footnote, an exponent or another raised text of no words."""
    return tag.name in ("sub", "sup") and not any(map(str.isalpha, tag.get_text()))


def _place_lost_tags(
    source: str, paths: list[Path], chunks: list[str], found: list[Path | None]
) -> None:
    """Put each tag that no word attends to around its own text, or at the same place.

    A footnote or an exponent is added to the translation that lacks it.
    """
    start = 0
    kept = Counter(id(tag) for each in found for tag in each or ())
    for _, group in groupby(paths, id):
        path, end = paths[start], start + len(list(group))
        if lost := [tag for tag in path if not kept[id(tag)]]:
            own = source[start:end]
            same = [place for place, chunk in enumerate(chunks) if chunk == own]
            alike = [place for place, each in enumerate(chunks) if each.isspace() == own.isspace()]
            places = same[:1] or alike or [0]
            place = places[int(start / len(paths) * len(places))]
            if not same and any(map(_is_note, lost)):
                gap = " " * chunks[place].isdecimal()  # 50 with a footnote 2 is not 50 squared
                place += 1
                chunks.insert(place, gap + own)
                found.insert(place, None)
            kept.subtract(map(id, found[place] or ()))
            kept.update(map(id, path))
            found[place] = path
        start = end


def _filled(found: list[Path | None], first: Path, last: Path) -> list[Path]:
    """Give spaces and marks the tags that the words on both sides share.

    The paths `first` and `last` stand for words before and after the text.
    """
    filled: list[Path] = []
    for place, path in enumerate(found):
        if path is None:
            before = filled[-1] if filled else first
            after = next((each for each in found[place:] if each is not None), last)
            path = _shared(before, after)
        filled.append(path)
    return filled


def _shared(first: Path, second: Sequence["Tag"]) -> Path:
    """Return the outer tags that two paths share; tags with the same content differ."""
    pairs = takewhile(lambda pair: pair[0] is pair[1], zip(first, second, strict=False))
    return tuple(tag for tag, _ in pairs)


def _joined(pieces: list[tuple[str, Path]], more: list[tuple[str, Path]]) -> list[tuple[str, Path]]:
    """Join sentences as `join_sentences` does."""
    before, after = ("".join(text for text, _ in part) for part in (pieces, more))
    gap = join_sentences([before, after])[len(before) : -len(after) or None] if before else ""
    space = [(gap, _shared(pieces[-1][1], more[0][1]))] if gap and more else []
    return [*pieces, *space, *more]


def _in_order(source: str, target: str) -> Offsets:
    """Return offsets for words in the same order as in the source."""
    scale = len(source) / max(len(target), 1)
    return [(place, int(place * scale)) for place in range(len(target))]


def attended_offsets(translation: Translation, hypothesis: TranslatedHypothesis) -> Offsets:
    """Return the place of each token in a translation, and of its most attended source token.

    A model without attention keeps the order of words.
    """
    weights = np.asarray(hypothesis.attention_weights, dtype=np.float32)  # (N, T, S)
    if not weights.size:
        return _in_order(translation.source, hypothesis.text)
    sources = _starts(translation.source, translation.source_tokens[:-1])
    targets = _starts(hypothesis.text, hypothesis.tokens[: len(hypothesis.ids)])
    columns = weights.mean(axis=0)[:, : len(sources)].argmax(axis=1) if sources else []
    return [(start, sources[column]) for start, column in zip(targets, columns, strict=False)]


def _starts(text: str, labels: Sequence[str]) -> list[int]:
    """Return the place of each token in a text; a token not found gets the next token's place.

    The text may be in capitals, which a model reads and writes in ordinary case.
    """
    starts: list[int] = []
    position = 0
    text_lowered = lowered(text)
    for label in labels:
        surface = lowered(label.replace("\u2581", " ").strip())
        place = text_lowered.find(surface, position) if surface else -1
        start = position if place < 0 else place
        while start < len(text) - 1 and text[start].isspace():
            start += 1
        starts.append(start)
        position = start + len(surface) if place >= 0 else position
    return starts
