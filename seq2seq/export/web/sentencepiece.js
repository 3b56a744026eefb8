"use strict";
// SentencePiece (Kudo and Richardson 2018): unigram and BPE models that seq2seq has trained.
// Ids and texts are those of the library.
const SPACE = "\u2581";
const UNK = 1, BOS = 2, EOS = 3, NUM_SPECIAL = 4; // as in seq2seq/special_tokens.py
const UNKNOWN_PENALTY = 10; // an unknown character scores less than the worst piece

class SentencePiece {
  constructor({ isBpe, unknownText, pieces, scores }, replace, rules) {
    Object.assign(this, { isBpe, unknownText, pieces, replace, rules });
    this.scores = Float32Array.from(scores);
    // A symbol is one character, which no other piece contains.
    this.ids = new Map([...pieces.entries()].slice(NUM_SPECIAL).map(([id, piece]) => [piece, id]));
    this.longest = pieces.reduce((most, piece) => Math.max(most, [...piece].length), 1);
    const [worst] = this.scores.slice(NUM_SPECIAL).sort();
    this.unknownScore = Math.fround(worst - UNKNOWN_PENALTY);
  }

  encode(line) {
    const text = this.replace(this.rules.encoded(line));
    const characters = text ? [SPACE, ...text.replaceAll(" ", SPACE)] : [];
    const ids = this.isBpe ? this.mergePairs(characters) : this.bestPath(characters);
    // Neighboring unknown characters are one token.
    return ids.filter((id, i) => id !== UNK || ids[i - 1] !== UNK);
  }

  // The most probable segmentation (Viterbi). Sums are rounded as the library rounds them: it
  // compares in float64 and stores float32.
  bestPath(characters) {
    const size = characters.length;
    const best = new Float32Array(size + 1), ids = new Int32Array(size + 1);
    const starts = new Int32Array(size + 1).fill(-1);
    for (let start = 0; start < size; start++) {
      let piece = "";
      for (let end = start + 1; end <= Math.min(size, start + this.longest); end++) {
        piece += characters[end - 1];
        const id = this.ids.get(piece) ?? UNK;
        if (id === UNK && end > start + 1) continue;
        const total = best[start] + (id === UNK ? this.unknownScore : this.scores[id]);
        if (starts[end] >= 0 && total <= best[end]) continue;
        [best[end], starts[end], ids[end]] = [total, start, id];
      }
    }
    const path = [];
    for (let end = size; end > 0; end = starts[end]) path.unshift(ids[end]);
    return path;
  }

  // Byte-pair encoding: join the pair with the best score, the leftmost of equal ones.
  mergePairs(parts) {
    const scoreAt = (i) => this.scores[this.ids.get(parts[i] + parts[i + 1])] ?? -Infinity;
    const scores = parts.slice(1).map((_, i) => scoreAt(i)); // of each part and the next one
    for (;;) {
      let place = 0;
      for (let i = 1; i < scores.length; i++) if (scores[i] > scores[place]) place = i;
      if (!(scores[place] > -Infinity)) return parts.map((part) => this.ids.get(part) ?? UNK);
      parts.splice(place, 2, parts[place] + parts[place + 1]);
      scores.splice(place, 1);
      if (place > 0) scores[place - 1] = scoreAt(place - 1);
      if (place < scores.length) scores[place] = scoreAt(place);
    }
  }

  // The space that encoding adds is removed.
  decode(ids) {
    const texts = ids.filter((id) => id === UNK || id >= NUM_SPECIAL)
      .map((id) => (id === UNK ? this.unknownText : this.pieces[id]));
    return this.rules.decoded(texts.join("").replace(/^\u2581/, "").replaceAll(SPACE, " "));
  }

  tokens(ids) {
    return ids.map((id) => this.rules.decoded(this.pieces[id]));
  }
}

// Return a function that replaces the longest match at each place; a byte without a match stays.
// The rules are a double-array trie (Darts) from bytes to places of the new texts.
function readCharsmap(bytes) {
  const [size = 0] = new Uint32Array(bytes.slice(0, 4).buffer);
  const units = new Uint32Array(bytes.slice(4, 4 + size).buffer);
  const texts = bytes.subarray(4 + size); // each ends with 0
  const below = (unit) => (unit >>> 10) << ((unit & 0x200) >>> 6);
  return (line) => {
    if (!size) return line;
    const old = new TextEncoder().encode(line), output = [];
    for (let start = 0, end; start < old.length; start = end) {
      end = start + 1;
      let text = old.subarray(start, end), node = below(units[0]);
      for (let at = start; at < old.length; at++) {
        const unit = units[node ^ old[at]];
        if ((unit & 0x800000ff) !== old[at]) break;
        node ^= old[at] ^ below(unit);
        if (!(unit & 0x100)) continue;
        const place = units[node] & 0x7fffffff;
        text = texts.subarray(place, texts.indexOf(0, place));
        end = at + 1;
      }
      output.push(...text);
    }
    // A byte order mark is a character like others.
    return new TextDecoder("utf-8", { ignoreBOM: true }).decode(new Uint8Array(output));
  };
}
