"""Codes of languages, in the forms that clients send."""

import re
from collections.abc import Collection

_LANGUAGES = {
    "ar": "Arabic ara", "bg": "Bulgarian bul", "bn": "Bengali ben", "ca": "Catalan cat",
    "cs": "Czech ces cze", "da": "Danish dan", "de": "German deu ger", "el": "Greek ell gre",
    "en": "English eng", "es": "Spanish spa", "et": "Estonian est", "eu": "Basque eus baq",
    "fa": "Persian fas per pes", "fi": "Finnish fin", "fr": "French fra fre", "ga": "Irish gle",
    "gl": "Galician glg", "he": "Hebrew heb iw", "hi": "Hindi hin", "hr": "Croatian hrv",
    "hu": "Hungarian hun", "hy": "Armenian hye arm", "id": "Indonesian ind in",
    "is": "Icelandic isl ice", "it": "Italian ita", "ja": "Japanese jpn", "ka": "Georgian kat geo",
    "ko": "Korean kor", "lt": "Lithuanian lit", "lv": "Latvian lav lvs", "mk": "Macedonian mkd mac",
    "mn": "Mongolian mon khk", "ms": "Malay msa may zsm", "my": "Burmese mya bur",
    "nl": "Dutch nld dut", "no": "Norwegian nor nb nob", "pl": "Polish pol",
    "pt": "Portuguese por pb", "ro": "Romanian ron rum", "ru": "Russian rus",
    "sk": "Slovak slk slo", "sl": "Slovenian slv", "sq": "Albanian sqi alb", "sr": "Serbian srp",
    "sv": "Swedish swe", "sw": "Swahili swa swh", "ta": "Tamil tam", "th": "Thai tha",
    "tl": "Tagalog tgl fil", "tr": "Turkish tur", "uk": "Ukrainian ukr", "ur": "Urdu urd",
    "uz": "Uzbek uzb uzn", "vi": "Vietnamese vie", "yi": "Yiddish yid ji",
    "zh": "Chinese zho chi cmn",
}  # fmt: skip
"""For each code, the English name of the language and its further codes: those of ISO 639-2 and
639-3, and those of LibreTranslate."""
_SCRIPTS = {"cn": "hans", "sg": "hans", "tw": "hant", "hk": "hant", "mo": "hant"}
"""The scripts of Chinese in the regions that use one."""
_SHORT = {more: code for code, text in _LANGUAGES.items() for more in text.split()[1:]}


def described(code: str) -> dict[str, str]:
    """Return the code of a language and its English name, or the code again if it has no name."""
    name = _LANGUAGES.get(code, code).split()[0]
    return {"code": code, "name": name}


def find_code(code: str, known: Collection[str]) -> str:
    """Return a known code for a language, or the code again if none or several fit.

    The known code may differ in case, in its number of letters, in script or in region. The code
    that shares most with the wanted one is preferred, then the one without anything else.

    Example:
        >>> [find_code(code, ["en", "zh"]) for code in ("EN_gb", "eng", "zh-Hans-TW")]
        ['en', 'en', 'zh']
        >>> [find_code(code, ["pt-BR", "sr-Cyrl", "sr-Latn"]) for code in ("por", "sr", "sr_latn")]
        ['pt-BR', 'sr', 'sr-Latn']
        >>> [find_code(code, ["zh-Hans", "zh-Hant"]) for code in ("zh_CN", "zh-TW", "zt")]
        ['zh-Hans', 'zh-Hant', 'zh-Hant']
    """
    wanted = _subtags(code)
    for length in range(len(wanted), 0, -1):
        alike = [each for each in known if _subtags(each)[:length] == wanted[:length]]
        plain = [each for each in alike if len(_subtags(each)) == length]
        if len(plain or alike) == 1:
            return (plain or alike)[0]
    return code


def _subtags(code: str) -> list[str]:
    """Return the language, with two letters if it has such a code, and what follows it."""
    # LibreTranslate writes zt for Chinese in traditional characters.
    plain = re.sub(r"\Azt\b", "zh-hant", code.lower().replace("_", "-"))
    language, *others = plain.split("-")
    language = _SHORT.get(language, language)
    return [language, *(_SCRIPTS.get(each, each) if language == "zh" else each for each in others)]
