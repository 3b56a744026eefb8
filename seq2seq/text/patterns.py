"""Patterns of the spans that can be protected.

A span is whole or absent: it begins after white space or an opening mark and ends before a closing
mark or white space, so that no symbol stands for a part of `3,5mm` or `v2.10.1`. What is made of
words, such as `C++`, `and/or` and `3D-Drucker`, is text. The syntax is Python's; the page
translates \\w, \\d and \\s, which must be within brackets. The numbers of repetitions are bounded,
which keeps the time linear in the length of the text.
"""

from collections.abc import Mapping
from pathlib import Path

_NO_SPACES = (
    r"\u0e00-\u0e7f\u3001-\u30ff\u3400-\u9fff\uac00-\ud7a3\uff01-\uff0f\uff1a-\uff20\uff3b-\uff65"
)
"""Letters and marks of Thai, Japanese, Chinese and Korean, which need no space beside a span."""
_LETTER = r"A-Za-z\u00c0-\u024f"
WORD = rf"{_LETTER}\d_"
"""Letters of addresses and codes, and digits."""
_BEFORE = (
    r"""\s(\[{<>"'`\u00ab\u2018\u201a-\u201e\u2039\u203a\u00bb\u00bf\u00a1\u2014\u2026"""
    + _NO_SPACES
)
"""Characters that can precede a span."""
_AFTER = r""".,;:!?\u2026)\]}"'`\u00ab\u00bb\u2018-\u201e\u2039\u203a"""
"""Characters that can stand between a span and white space."""
_SIGNS = r"$%\u00a3\u00a5\u00a7\u00b0\u00b1\u2030\u2116\u2248\u20a0-\u20bf~"
"""Signs beside numbers, which another language may write on the other side."""
_ENDS = rf"[\s<>\u2014\u2026{_NO_SPACES}]|\Z"
_START, _END = rf"(?<![^{_BEFORE}])", rf"(?=[{_AFTER}]{{0,5}}(?:{_ENDS}))"

_NO_ADDRESS = "\u2010-\U0010ffff"
"""Characters that end a URL: quotation marks, and letters of Chinese and others."""
_BRACKETS = rf"""\([^\s<>"(){_NO_ADDRESS}]*\)"""

_FORMAT = r"(?:[\d]{1,3}\$)?[-#+'0]{0,5}(?:[\d]{1,9}|\*)?(?:\.(?:[\d]{1,9}|\*)?)?"
"""Flags, width and precision of printf."""
_PLACEHOLDERS = (
    r"%[A-Za-z_][\w]{2,60}%(?![%\w])",
    r"%\([\w. -]{1,80}\)[#0+-]{0,5}[\d]{0,9}(?:\.[\d]{1,9})?[a-zA-Z]",
    rf"(?<![\d%])%{_FORMAT}(?:hh?|ll?|[jztqL])?[diouxXeEfFgGaAcCsSpnm@](?![A-Za-z]{{2}})",
    rf"%(?<![^{_BEFORE}].)(?:L?[\d]{{1,3}}|{_FORMAT}[A-Za-z]{{1,2}}){_END}",
    # ICU: the cases of a plural or a choice, which may contain placeholders.
    r"\{[\s]*[\w]{1,60}[\s]*,[\s]*(?:plural|select|selectordinal)[\s]*,"
    r"(?:[^{}]|\{(?:[^{}]|\{[^{}]*\})*\})*\}",
    r"\{\{\{?[^{}]{0,200}\}\}\}?",
    r"\{%[^%{}]{0,200}%\}",
    # ${name}, #{name}, {}, { $name }, {price:,.2f} and {0,number}; {when, date, short}.
    r"[$#%]?\{(?:[\w.:!$@#\[\] -]{0,120}|[^\s{}]{1,120}|[\s]*[\w.]{1,60}[\s]*,[^{}]{1,120})\}",
    r"\[\[[^\[\]]{1,100}\]\]",
    r"@@[\w]{1,60}@@",
    rf"\$(?<![^{_BEFORE}].)(?:t\([^\s()]{{1,100}}\)|[A-Za-z_][\w]{{0,60}}(?:\.[\w]{{1,60}})*{_END})",
    rf":(?<![^{_BEFORE}].)[a-z_][\w]{{1,60}}:?{_END}",
    r"&(?:[A-Za-z]{1,40}|#[\d]{1,8}|#x[\dA-Fa-f]{1,6});",
)

_HEX = r"[\dA-Fa-f]"
_PART = (
    rf"(?:[{_LETTER}]+[\d][{_LETTER}\d]*|[\d]+(?:[A-Z][A-Z\d]*[a-z]?|[a-z]+[\d][{_LETTER}\d]*)?"
    r"|[A-Z]+|[a-z])"
)
"""A part of a code of letters and digits: a number, capitals or one letter, or a mixture that is
neither a number with an ending, such as 1990er, nor a word."""
_INNER = rf"{WORD}+*/=@#$&~^|\\\-"
_TOKEN = (
    rf"\.?[{_INNER}](?:[.,:;!?]{{0,3}}"
    rf"(?:[{_INNER}]|\([{_INNER}.,:]{{0,60}}\)|\[[{_INNER}.,:]{{0,60}}\])){{0,120}}"
)
"""Characters without white space or quotation marks, with pairs of brackets."""
_MARK = (
    r"[=\\^]|#[\w]|\$[A-Za-z_(]|[\w]@[\w.-]{1,60}:[\w]|_[\w]*_|[a-z\d]_[a-z\d]|[A-Z\d]_[A-Z\d]"
    r"|[\w]\([\d]*\)|::|\*\.[\w]"
)
"""What words do not have: foo_bar, fooBar(), printf(3), key=value, git@host:a, std::string."""
_MNEMONIC = rf"_[A-Za-z]|[A-Z][{_LETTER}]{{0,40}}_[{_LETTER}]{{0,40}}{_END}"
"""A letter of a menu, such as `_File` and `E_xit`."""
_CODE = (
    # An IBAN, whose groups are of letters and digits, of which at least eight are digits.
    r"(?=[A-Z]{2}[\d]{2}(?:[A-Z ]{0,12}[\d]){6})[A-Z]{2}[\d]{2}"
    r"(?: [A-Z\d]{4}){2,7}(?: (?=[A-Z]{0,2}[\d])[A-Z\d]{1,3})?",
    rf"{_HEX}{{8}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}}",
    # KR-7008/c, A4, crc32, v2.10.1 and 2024-01-31T12:00Z, but not 7h30 or 1e-5.
    rf"(?=[{WORD}/.:+-]{{0,60}}[\d])(?=[{WORD}/.:+-]{{0,60}}[{_LETTER}])"
    rf"(?![\d]{{1,2}}h[\d]|[\d.]+[eE][+-]?[\d]){_PART}(?:[-/._:+]{_PART}){{0,30}}",
    r"v?[\d]{1,9}(?:\.[\d]{1,9}){2,6}-[a-z]{1,20}",
    rf"(?!{_MNEMONIC})(?=[{_INNER}.,:;!?]{{0,80}}(?:{_MARK}))(?=[^\s]{{0,80}}[{WORD}])"
    rf"{_TOKEN}",
    # /usr/bin, ~/a/b and ./x, but not /s.
    rf"(?:~|\.\.?)?/(?=[{WORD}.*-]{{2,60}}/|[{WORD}.*-]{{0,60}}/[{WORD}])[{WORD}.*/-]*[{WORD}*]/?",
    rf"\.\.?/[{WORD}.*/-]+",
)
_CODES = (
    rf"{_START}(?:{'|'.join(_CODE)}){_END}",
    rf"@(?<![^{_BEFORE}].)[{WORD}]{{1,60}}{_END}",
    # The options of a command, but not the dash after a quotation.
    rf"-(?<![^\s(\['`{_NO_SPACES}].)-?[{_LETTER}][\w-]*(?:\[?=[^\s]{{1,80}})?{_END}",
    rf"[A-Za-z]:\\(?<![^{_BEFORE}].:.)[{WORD}.\\-]*{_END}",
)

MINUS = "[-\u2212\u2013]"
_NUMBER_START = rf"(?:{_START}{MINUS}|(?<![^{_BEFORE}{_SIGNS}\u2013]))"
_NUMBER_END = (
    rf"(?=[{_AFTER}{_SIGNS}]{{0,5}}(?:\u2013|{_ENDS})"
    rf"|-[{_LETTER}]{{2}})"
)
"""Also before the word of a compound: 2:1-Sieg, 10-year-old."""
UNIT = (
    r"(?:[k\u00b5m]?g|[mcdk]?m[\u00b2\u00b3]?|[mcdh]?l|\u00b0[CF]|EUR|USD|CHF|GBP|k?Wh?|[kMG]?Hz"
    r"|[kKMGT]?B)?"
)
_DIGITS = r"[\d]{1,60}"
_NUMBER = (
    # 1e-5 and 5x7.
    rf"{_DIGITS}(?:[.,]{_DIGITS})?(?:[eE][+-]?[\d]{{1,4}}|(?:[x\u00d7]{_DIGITS}){{1,5}})",
    # 5, -73,24, 12:30, 1.5.2024, 10 000, 10-12 with any dash, 3,5mm and 23\u00bd.
    rf"{_DIGITS}(?:[.,:/'\u2019\u066b\u066c\u2013-]{_DIGITS}| [\d]{{3}}(?![\d])){{0,30}}"
    rf"[\u00bc-\u00be\u2150-\u215e]?{UNIT}",
    r"[\u00bc-\u00be\u2150-\u215e]",
)
_NUMBERS = (
    # +49 30 1234 and 0171/123 45 67.
    rf"\+(?<![^{_BEFORE}].)[\d](?:[ /-]?[\d]){{1,30}}{_END}",
    rf"{_START}(?=(?:[ /-]?[\d]){{8}})0[\d]{{2,4}}(?:[ /-][\d]{{1,20}}){{1,10}}{_END}",
    rf"{_NUMBER_START}(?:{'|'.join(_NUMBER)}){_NUMBER_END}",
)

PATTERNS: Mapping[str, str] = {
    "tags": r"</?(?:[A-Za-z][^<>]*|[\d]{1,3}/?)>|<%[^<>]*%>",
    "emails": rf"(?<![{WORD}.+-])[{WORD}.+-]+@[{WORD}-]+(?:\.[{WORD}-]+)+(?![:/][{WORD}])",
    # A full stop or a bracket after an address belongs to the sentence, but not a pair in it.
    "urls": (
        rf"""(?:(?:https?|ftp)://|www\.)(?:[^\s<>"(){_NO_ADDRESS}]|{_BRACKETS})*"""
        rf"""(?:[^\s<>".,;:!?'()\]}}{_NO_ADDRESS}]|{_BRACKETS})/?"""
    ),
    "placeholders": "|".join(_PLACEHOLDERS),
    "codes": "|".join(_CODES),
    "numbers": "|".join(_NUMBERS),
    # Unicode's list of emoji, written by tests/emoji_pattern.py; a sign such as \u00a9 without
    # U+FE0F is text.
    "emoji": Path(__file__)
    .with_name("emoji.txt")
    .read_text()
    .strip()
    .encode()
    .decode("unicode_escape"),
}
"""Patterns of the kinds of spans that can be protected; at one place, the earlier kind counts."""

DECIMALS = rf"{_NUMBER_START}{_DIGITS}(?:[.,\u066b]{_DIGITS})+{UNIT}{_NUMBER_END}"
"""Numbers that another language may write with other marks, such as 277,70 and 277.70."""

TRACE = r"[^\w\s.,;!?'\"\u2019\u201c-\u201e-]|[\d_]|(?<!\w)-|www\."
"""What every span has; most sentences have none of it, and finding that out is fast."""
