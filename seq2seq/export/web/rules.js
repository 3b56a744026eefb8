// Rules for the text that the model reads and writes: seq2seq/text/rules.py.
const INVISIBLE = /[\x00-\x1f\x7f-\x9f\xad\u180e\u200b\u200e\u200f\u202a-\u202e\u2060\u2066-\u2069\ufeff]/gu;
// Symbols for the spans of a sentence, in order.
const SYMBOLS = [...Array(10).keys()].map((place) => String.fromCodePoint(0x10ff00 + place));
// Ends an opening tag that touches a word.
const GLUE = "\u{10ff0a}";
const FIRST_TAG = 0x108000;

class TextRules {
  // `pattern` finds the spans to protect; the matches of its group `kept` stay in the text. Each of
  // `tags`, which `tag` finds, is a character of the tokenizers.
  constructor({ normalizes, pattern, tags = [], tag }) {
    Object.assign(this, { normalizes, tags });
    this.pattern = pattern && new RegExp(pattern, "gu");
    this.tag = tag && new RegExp(tag, "gu");
    this.leading = tag ? new RegExp(`^${WHITE}*(?:(?:${tag}) ?)+`, "u") : null;
    const symbols = tags.map((_, place) => String.fromCodePoint(FIRST_TAG + place));
    this.reserved = new RegExp(`[${[...SYMBOLS, GLUE, ...symbols].join("")}]`, "gu");
  }

  normalize(text) {
    const own = this.normalizes || this.pattern || this.tag ? text.replace(this.reserved, "") : text;
    if (!this.normalizes) return own;
    return singleSpaces(singleSpaces(own).replace(INVISIBLE, "")).normalize("NFC");
  }

  encoded(text) {
    const symbol = (tag) => String.fromCodePoint(FIRST_TAG + this.tags.indexOf(tag));
    return this.tag ? text.replace(this.tag, symbol) : text;
  }

  decoded(text) {
    const tag = (symbol) => this.tags[symbol.codePointAt(0) - FIRST_TAG] ?? symbol;
    return this.tag ? [...text].map(tag).join("") : text;
  }

  // Return the tags at the start of a text, each with the spaces around it.
  leadingTags(text) {
    return this.leading?.exec(text)?.[0] ?? "";
  }

  // Return the text that the model reads, with symbols for its protected spans, and the spans.
  prepare(line) {
    const text = this.normalize(line), spans = [];
    if (!this.pattern) return { text, spans };
    const masked = text.replace(this.pattern, (span, ...found) => {
      if (!span || found.at(-1).kept !== undefined || spans.length === SYMBOLS.length) return span;
      const next = text.slice(found.at(-3) + span.length);
      const touches = /^<[^/]/.test(span) && /^[\p{L}\p{N}]/u.test(next);
      spans.push(span + (touches ? GLUE : ""));
      return SYMBOLS[spans.length - 1] + (touches ? " " : "");
    });
    return { text: masked, spans };
  }
}

const LETTERS = /[\p{L}\p{Nl}\p{No}]+/gu, CODED = /[\p{Nd}@/\\_<>{}%&]/u, FEWEST_CAPITALS = 5;

// Return whether all words of a text are in capitals, and it is more than an abbreviation.
function inCapitals(text) {
  const tokens = text.replaceAll("ß", "ẞ").split(" ").filter((token) => !CODED.test(token));
  const words = tokens.flatMap((token) => token.match(LETTERS) ?? []);
  return words.reduce((total, word) => total + [...word].length, 0) >= FEWEST_CAPITALS
    && words.every((word) => word === word.toUpperCase() && word !== word.toLowerCase());
}

// Return a text in capitals in usual letters; each word gets the form that costs less.
function recase(text, cost) {
  let isFirst = true;
  const recased = (word) => {
    const lower = word.toLowerCase(), [first, ...rest] = word;
    // A final sigma needs a letter before it.
    const capitalized = first + `x${rest.join("")}`.toLowerCase().slice(1);
    const hasCapital = isFirst || word === "I" || cost(capitalized) < cost(lower);
    isFirst = false;
    return hasCapital ? capitalized : lower;
  };
  return text.split(" ").map((token) =>
    (CODED.test(token) ? token : token.replace(LETTERS, recased))).join(" ");
}

function singleSpaces(text) {
  return text.split(new RegExp(`${WHITE}+`)).filter(Boolean).join(" ");
}

// Return a text of the model with the originals in place of symbols.
function restore(text, spans) {
  const restored = [...text].map((character) => spans[SYMBOLS.indexOf(character)] ?? character);
  return restored.join("").replace(/\u{10ff0a} ?/gu, "");
}
