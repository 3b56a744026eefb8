// Split a text into sentences, and join translations: seq2seq/text/sentences.py, line by line.
// The page contains its words and patterns.
// The classes of Python's `str.strip`: white space.
const WHITE = "[\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]";
const CONTEXT = 60; // characters before and after a gap that are inspected

class SentenceRules {
  constructor({ words, patterns }) {
    this.words = words;
    this.find = Object.fromEntries(Object.entries(patterns).map(([name, pattern]) =>
      [name, new RegExp(pattern, ["gap", "tags", "not_words"].includes(name) ? "gu" : "u")]));
    this.openers = words.quotations.map(([opener]) => opener);
    this.white = new RegExp(`${WHITE}+`, "u");
    this.outerWhite = new RegExp(`^${WHITE}+|${WHITE}+$`, "gu");
    this.markers = new RegExp(
      `^(?:[${words.markers.replace(/[-|]/g, "\\$&")}]|\\p{So}|\\p{Sm}|\\p{Sk})+$`, "u");
  }

  split(text) {
    const { find } = this;
    const sentences = [], isLower = /\p{Lowercase}/u.test(text) && !/[\p{Uppercase}\p{Lt}]/u.test(text);
    let start = 0;
    const inTags = new Set([...text.matchAll(find.tags)].flatMap(({ 0: tag, index }) =>
      [...Array(tag.length - 1).keys()].map((place) => index + 1 + place)));
    for (const { 0: gap, index, groups } of text.matchAll(find.gap)) {
      const last = index + (groups.mark ?? "").length, end = index + gap.length;
      if (last <= start || end === text.length || inTags.has(last)) continue;
      const before = [...text.slice(Math.max(start, last - 2 * CONTEXT), last)].slice(-CONTEXT).join("");
      const after = [...text.slice(end, end + 2 * CONTEXT)].slice(0, CONTEXT).join("");
      let isEnd;
      if (last < end || before.endsWith(">") || after.startsWith("<")) {
        isEnd = this.isEnd(before, after, isLower);
      } else if (!groups.mark) {
        isEnd = this.isGluedEnd(before, after);
      } else if (this.openers.includes(groups.mark[0])) {
        const isIntroduced = this.words.before_quotation.includes(text[index - 1]);
        isEnd = find.quoted_end.test(before) && (isIntroduced || this.openers.includes(after[0]));
      } else {
        const isNumber = /^\p{Nd}/u.test(after) && find.decimal.test(before);
        isEnd = !isNumber && !find.closing.test(after);
      }
      if (isEnd) {
        sentences.push(this.strip(text.slice(start, last)), ...(groups.break ? [groups.break] : []));
        start = end;
      }
    }
    return [...sentences, text.slice(start)];
  }

  isEnd(before, after, isLower) {
    const { find } = this;
    if (find.closing.test(after)) return false;
    [before, after] = [before, after].map((text) => text.replace(find.tags, ""));
    before = before.slice(0, before.search(find.closed));
    if (!find.stopped.test(before) || find.closing.test(after)) return false;
    const first = after.match(find.first_word);
    if (find.wide_stopped.test(before) || first === null) return true;
    if (/^\p{Lowercase}/u.test(first[0]) && !isLower) return false;
    const token = before.match(find.token);
    return token === null || this.wordEnds(token.groups.word, before, first);
  }

  isGluedEnd(before, after) {
    const first = after.match(this.find.after_glued);
    if (first === null || !this.find.glued.test(before)) return false;
    return !before.endsWith(".") || this.words.starters.includes(first[0].toLowerCase());
  }

  wordEnds(word, before, first) {
    const { find, words } = this;
    const following = first[0].toLowerCase().replaceAll("\u2019", "'");
    const starts = words.starters.includes(following)
      || words.starters.includes(first.groups.start.toLowerCase());
    const found = before.match(find.initials);
    if (found) {
      word = found[0].split(this.white).join("").replace(/\.$/, "");
      if (find.initial.test(first.input.slice(first.index))) return false;
    }
    const lower = word.toLowerCase(), isNumber = /^\p{Nd}/u.test(following);
    const rest = before.slice(0, Math.max(0, before.length - word.length - 1));
    const afterWord = first.input[first.index + first[0].length] ?? "";
    if (words.never_end.includes(lower) || words.never_end.includes(word)) return false;
    if (words.degrees.includes(lower) && this.strip(rest).endsWith(".")) return false;
    if (isNumber && (words.before_number.includes(lower) || /(?:str|nr)$/.test(lower))) return false;
    if (words.times.includes(lower)) return !words.days.includes(following) && !words.months.includes(following);
    if (starts || find.pronoun.test(before)) return true;
    if (!find.number.test(word)) return !words.may_end.includes(lower) && !find.dotted.test(word);
    if (isNumber) return false;
    const last = this.strip(rest.match(find.last_word)[0]).toLowerCase();
    const isOrdinal = this.strip(rest) === "" || words.months.includes(following)
      || words.months.includes(following + afterWord)
      || (words.before_ordinal.includes(last) && !find.i_am.test(rest))
      || find.second_number.test(rest);
    return !isOrdinal;
  }

  hasWords(text) {
    return /\p{L}/u.test(this.strip(text).replace(this.find.not_words, " "));
  }

  splitMarker(text) {
    const stripped = this.strip(text), space = stripped.search(this.white);
    const marker = stripped.slice(0, Math.max(space, 0));
    if (this.markers.test(marker) || this.find.list_marker.test(marker)) {
      return [marker, this.strip(stripped.slice(space))];
    }
    return this.find.speech.test(stripped) ? [stripped[0], stripped.slice(1)] : ["", text];
  }

  isBreak(text) {
    return this.find.break.test(text);
  }

  join(texts) {
    const joined = [];
    for (const text of texts.filter(Boolean)) {
      const before = joined.at(-1) ?? "";
      const isBreak = this.isBreak(before) || this.isBreak(text);
      const isWide = this.find.ends_wide.test(before)
        || (this.find.starts_wide.test(text) && this.hasWords(before));
      joined.push(joined.length && !isBreak && !isWide ? ` ${text}` : text);
    }
    return joined.join("");
  }

  strip(text) {
    return text.replace(this.outerWhite, "");
  }
}
