"""Split a text into the sentences that are translated, and put their translations in its place."""

import html
import re
import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from seq2seq.text.sentences import join_sentences

if TYPE_CHECKING:
    from bs4.element import NavigableString

_LINE_END = re.compile(r"(\r\n|\n|\r)")
_HTML_SPACE = re.compile(r"[ \t\n\f\r]+")
_CODE = frozenset({"code", "kbd", "pre", "samp", "textarea", "var"})
"""Elements whose text is not a sentence."""

Split = Callable[[str], Sequence[str]]
"""Function that returns the sentences of a line."""


class SplitText(NamedTuple):
    """A text as sentences, in lines whose ends it keeps."""

    lines: list[Sequence[str]]
    """Sentences of each line; empty for a blank line."""
    ends: list[str]
    """Line break after each line, "" for the last line."""

    @property
    def sentences(self) -> list[str]:
        """Return the sentences of all lines."""
        return [sentence for line in self.lines for sentence in line]

    def join(self, translations: Sequence[str]) -> str:
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


def split_text(text: str, split: Split) -> SplitText:
    """Split a text at its line ends, and its lines into sentences."""
    pieces = [*_LINE_END.split(text), ""]
    lines = [split(line) if line.strip() else () for line in pieces[::2]]
    return SplitText(lines, pieces[1::2])


class SplitHtml:
    """HTML whose texts between tags are split into sentences; everything else stays.

    Scripts, styles, comments, code, and elements with `translate="no"` stay too.

    Raises:
        ValueError: The text cannot be read as HTML.

    Example:
        >>> text = SplitHtml("<p>Ja &amp; nein.<br/> Ja.</p>", lambda line: [line])
        >>> text.sentences
        ['Ja & nein.', 'Ja.']
        >>> text.join(["Yes < no.", "Yes."])
        '<p>Yes &lt; no.<br/> Yes.</p>'
    """

    def __init__(self, text: str, split: Split) -> None:
        import bs4  # takes 0.15 s, which is wasted if no client sends HTML

        # After the last ">" there is only text. The parser would search it for the end of each tag,
        # in quadratic time, and lose an "&" near the end.
        tags, end, rest = text.rpartition(">")
        markup = tags + end + html.escape(html.unescape(rest), quote=False)
        with warnings.catch_warnings():
            warnings.simplefilter(
                "ignore", bs4.UnusualUsageWarning
            )  # the text may look like XML or a path
            try:
                self._soup = bs4.BeautifulSoup(markup, "html.parser")
            except bs4.ParserRejectedMarkup as error:
                raise ValueError("not HTML") from error
        self.sentences: list[str] = []
        self._texts: list[tuple[NavigableString, str, int, str]] = []
        stays = {id(self._soup): False}
        for node in self._soup.descendants:  # each node comes after its parent
            inherited = stays[id(node.parent)]
            if isinstance(node, bs4.Tag):
                stays[id(node)] = inherited or node.name in _CODE or node.get("translate") == "no"
            elif (
                type(node) is bs4.element.NavigableString
                and not inherited
                and (content := node.strip())
            ):
                before, _, after = node.partition(content)
                sentences = split(_HTML_SPACE.sub(" ", content))
                self._texts.append((node, before, len(sentences), after))
                self.sentences += sentences

    def join(self, translations: Sequence[str]) -> str:
        """Return the HTML with the translation of each sentence in its place."""
        remaining = iter(translations)
        for index, (node, before, number, after) in enumerate(self._texts):
            found = [next(remaining) for _ in range(number)]
            new = type(node)(before + join_sentences(found) + after)
            node.replace_with(new)
            self._texts[index] = (new, before, number, after)
        return str(self._soup)
