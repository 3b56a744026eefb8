// Split a text into sentences: seq2seq/inference/sentence_splitting.py, line by line.
// The white space of Python's `str.strip` and regular expressions.
const WHITE = "[\\t-\\r\\x1c-\\x20\\x85\\xa0\\u1680\\u2000-\\u200a\\u2028\\u2029\\u202f\\u205f\\u3000]";
const STOPS = ".!?\u2026\u061f\u06d4\u0964\u1362", CLOSING = "\"'\u00bb\u2019\u201c\u201d)]";
const CONTEXT = 20; // characters before a space that are inspected

function splitSentences(text, abbreviations) {
  const gaps = new RegExp(
    `[\\u3002\\uff01\\uff1f]+[\\u300d\\u300f\\uff09\\u201d]*${WHITE}*|(?<spaces>${WHITE}+)`, "gu");
  const sentences = [];
  let start = 0;
  for (const { 0: gap, index, groups } of text.matchAll(gaps)) {
    const end = index + gap.length;
    if (index <= start || end >= text.length) continue;
    const before = [...text.slice(start, index)].slice(-CONTEXT).join("");
    const following = String.fromCodePoint(text.codePointAt(end));
    if (groups.spaces === undefined || isEnd(before, following, abbreviations)) {
      sentences.push(text.slice(start, end).replace(new RegExp(`${WHITE}+$`), ""));
      start = end;
    }
  }
  return [...sentences, text.slice(start)];
}

function isEnd(before, following, abbreviations) {
  while (before && CLOSING.includes(before.at(-1))) before = before.slice(0, -1);
  if (!before || !STOPS.includes(before.at(-1)) || /^\p{Lowercase}/u.test(following)) return false;
  const word = before.match(/(?<word>[\p{L}\p{N}_]*)\.$/u)?.groups.word;
  if (word === undefined) return true;
  const isShortNumber = /^\p{Nd}{1,2}$/u.test(word), isInitial = /^\p{L}$/u.test(word);
  return !(isShortNumber || isInitial || abbreviations.includes(word.toLowerCase()));
}
