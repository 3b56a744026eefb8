// Split a text into sentences, and join translations: seq2seq/text/sentences.py, line by line.
// The classes of Python's `str.strip` and regular expressions: white space, letters, words.
const WHITE = "[\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]";
const NO_WHITE = WHITE.replace("[", "[^");
const LETTER = "[\\p{L}\\p{Nl}\\p{No}]", WORD = "[\\p{L}\\p{N}_]";
const CONTEXT = 60; // characters before and after a gap that are inspected

class SentenceRules {
  constructor(rules) {
    const any = (...names) =>
      `[${names.map((name) => rules[name].replace(/[\\\]\[^-]/g, "\\$&")).join("")}]`;
    const stop = any("stops", "stops_without_space"), closer = any("closing");
    const quotation = rules.quotations.map(([a, b]) => `${a}[^${a}${b} ]*${b}`).join("|");
    this.words = Object.fromEntries(
      Object.entries(rules).map(([name, words]) => [name, new Set(words)]));
    this.openers = new Set(rules.quotations.map(([opener]) => opener));
    const make = (pattern, flags = "u") => new RegExp(pattern, flags);
    this.gap = make(`(?:(?<mark>${quotation}|${any("stops_without_space")}+${closer}*)`
      + `${WHITE}*|${WHITE}+|(?<=[.!?])(?=${LETTER}))`, "gu");
    this.closing = make(`^(?:${closer}(?:${WHITE}|$)|${stop})`);
    this.quotedEnd = make(`${stop}${closer}+$`);
    this.closed = make(`(?:(?<!${WHITE})(?:${rules.footnote})|${closer}|${WHITE})*$`);
    this.glued = make(`(?<!${NO_WHITE})${rules.before_glued}$`);
    this.afterGlued = make(`^${rules.after_glued}`);
    this.stopped = make(`${stop}$`);
    this.wideStopped = make(`${any("stops_without_space")}$`);
    this.token = make(`(?<!${NO_WHITE})${any("opening")}*(?<word>${NO_WHITE}*)\\.$`);
    this.initials = make(`(?:(?<![\\p{L}\\p{N}_.'\\u2019/])${LETTER}\\.${WHITE}?)+$`);
    this.initial = make(`^${LETTER}\\.`);
    this.dotted = make(`^${LETTER}(?:\\.${LETTER})*$`);
    this.number = make(`^(?:${rules.number})$`);
    this.firstWord = make(`(?<start>${WORD}+)(?:['\\u2019]${WORD}+)?`);
    this.lastWord = make(`[\\p{L}\\p{N}]*(?=${WHITE}*$)`);
    this.pronoun = make(`(?<!${WORD})[a-z]+${WHITE}+I\\.$`);
    this.iAm = make(`(?<!${WORD})I${WHITE}+am${WHITE}*$`);
    this.secondNumber = make(
      `(?<!${WORD})(?:${rules.number})\\.${WHITE}+${NO_WHITE}+${WHITE}+$`);
    this.notWords = make(rules.not_words, "gu");
    this.white = make(`${WHITE}+`);
    this.outerWhite = make(`^${WHITE}+|${WHITE}+$`, "gu");
    this.marker = make(`^(?:(?:${any("markers")}|\\p{So}|\\p{Sm}|\\p{Sk})+|${rules.list_marker})$`);
    this.speech = make(`^${rules.speech}`);
    this.firstWithoutSpaces = make(`^[${rules.without_spaces}]`);
    this.lastWithoutSpaces = make(`[${rules.without_spaces}]$`);
  }

  split(text) {
    const sentences = [], isLower = /\p{Lowercase}/u.test(text) && !/[\p{Uppercase}\p{Lt}]/u.test(text);
    let start = 0;
    const inTags = new Set([...text.matchAll(/<\/?[A-Za-z][^<>]*>/g)].flatMap(({ 0: tag, index }) =>
      [...Array(tag.length - 1).keys()].map((place) => index + 1 + place)));
    for (const { 0: gap, index, groups } of text.matchAll(this.gap)) {
      const last = index + (groups.mark ?? "").length, end = index + gap.length;
      if (last <= start || end === text.length || inTags.has(last)) continue;
      const before = [...text.slice(Math.max(start, last - 2 * CONTEXT), last)].slice(-CONTEXT).join("");
      const after = [...text.slice(end, end + 2 * CONTEXT)].slice(0, CONTEXT).join("");
      let isEnd;
      if (last < end) {
        isEnd = this.isEnd(before, after, isLower);
      } else if (!groups.mark) {
        isEnd = this.isGluedEnd(before, after);
      } else if (this.openers.has(groups.mark[0])) {
        const isIntroduced = this.words.before_quotation.has(text[index - 1]);
        isEnd = this.quotedEnd.test(before) && (isIntroduced || this.openers.has(after[0]));
      } else {
        isEnd = !this.closing.test(after);
      }
      if (isEnd) {
        sentences.push(this.strip(text.slice(start, end)));
        start = end;
      }
    }
    return [...sentences, text.slice(start)];
  }

  isEnd(before, after, isLower) {
    before = before.slice(0, before.search(this.closed));
    if (!this.stopped.test(before) || this.closing.test(after)) return false;
    const first = after.match(this.firstWord);
    if (this.wideStopped.test(before) || first === null) return true;
    if (/^\p{Lowercase}/u.test(first[0]) && !isLower) return false;
    const token = before.match(this.token);
    return token === null || this.wordEnds(token.groups.word, before, first);
  }

  isGluedEnd(before, after) {
    const first = after.match(this.afterGlued);
    if (first === null || !this.glued.test(before)) return false;
    return !before.endsWith(".") || this.words.starters.has(first[0].toLowerCase());
  }

  wordEnds(word, before, first) {
    const { starters, never_end, degrees, before_number, times, days, months, before_ordinal,
      may_end } = this.words;
    const following = first[0].toLowerCase().replaceAll("\u2019", "'");
    const starts = starters.has(following) || starters.has(first.groups.start.toLowerCase());
    const found = before.match(this.initials);
    if (found) {
      word = found[0].split(this.white).join("").replace(/\.$/, "");
      if (this.initial.test(first.input.slice(first.index))) return false;
    }
    const lower = word.toLowerCase(), isNumber = /^\p{Nd}/u.test(following);
    const rest = before.slice(0, Math.max(0, before.length - word.length - 1));
    const afterWord = first.input[first.index + first[0].length] ?? "";
    if (never_end.has(lower) || (degrees.has(lower) && this.strip(rest).endsWith("."))) return false;
    if (isNumber && (before_number.has(lower) || /(?:str|nr)$/.test(lower))) return false;
    if (times.has(lower)) return !days.has(following) && !months.has(following);
    if (this.pronoun.test(before)) return true;
    if (this.number.test(word) && !isNumber) {
      const isOrdinal = this.strip(rest) === "" || months.has(following)
        || months.has(following + afterWord)
        || (before_ordinal.has(rest.match(this.lastWord)[0].toLowerCase()) && !this.iAm.test(rest))
        || this.secondNumber.test(rest);
      return starts || !isOrdinal;
    }
    return starts || !(may_end.has(lower) || this.dotted.test(word) || this.number.test(word));
  }

  hasWords(text) {
    return /\p{L}/u.test(this.strip(text).replace(this.notWords, " "));
  }

  splitMarker(text) {
    const stripped = this.strip(text), space = stripped.search(this.white);
    const marker = stripped.slice(0, Math.max(space, 0));
    if (this.marker.test(marker)) return [marker, this.strip(stripped.slice(space))];
    return this.speech.test(stripped) ? [stripped[0], stripped.slice(1)] : ["", text];
  }

  join(texts) {
    const joined = [];
    for (const text of texts.filter(Boolean)) {
      const before = joined.at(-1) ?? "";
      const isWide = this.lastWithoutSpaces.test(before)
        || (this.firstWithoutSpaces.test(text) && this.hasWords(before));
      joined.push(joined.length && !isWide ? ` ${text}` : text);
    }
    return joined.join("");
  }

  strip(text) {
    return text.replace(this.outerWhite, "");
  }
}
