"use strict";
// SentencePiece (Kudo and Richardson 2018): unigram and BPE models, read from their files.
// Ids and texts are those of the library for models that seq2seq trains.
const SPACE = "\u2581";
const UNIGRAM = 1, BPE = 2; // kinds of models
const NORMAL = 1, UNKNOWN = 2, CONTROL = 3, SYMBOL = 4; // kinds of pieces
const UNKNOWN_PENALTY = 10; // an unknown character scores less than the worst piece

class SentencePiece {
  // The numbers of the fields are those of sentencepiece_model.proto.
  constructor(bytes, rules = new TextRules({})) {
    this.rules = rules;
    const { 1: pieces, 2: [trainer], 3: [normalizer] } = readFields(bytes);
    const spec = readFields(normalizer), settings = readFields(trainer);
    this.charsmap = spec[2]?.[0].length ? new Charsmap(spec[2][0]) : null;
    this.model = settings[3]?.[0] ?? UNIGRAM;
    this.unknownText = settings[44] ? toText(settings[44][0]) : " \u2047 ";
    const fields = pieces.map(readFields);
    this.pieces = fields.map((piece) => toText(piece[1][0]));
    this.scores = fields.map((piece) => piece[2]?.[0] ?? 0);
    this.kinds = fields.map((piece) => piece[3]?.[0] ?? NORMAL);
    const [addsSpace, removesSpaces] = [spec[3]?.[0] ?? 1, spec[4]?.[0] ?? 1];
    const isKnown = [UNIGRAM, BPE].includes(this.model) && addsSpace && !removesSpaces;
    if (!isKnown || this.kinds.some((kind) => kind > SYMBOL)) {
      throw new Error("the tokenizer was not trained by seq2seq");
    }
    this.unknown = this.kinds.indexOf(UNKNOWN);
    // A symbol is one character, which no other piece contains.
    const normal = [...this.pieces.keys()].filter((id) =>
      this.kinds[id] === NORMAL || this.kinds[id] === SYMBOL);
    this.ids = new Map(normal.map((id) => [this.pieces[id], id]));
    this.longest = normal.reduce((most, id) => Math.max(most, [...this.pieces[id]].length), 1);
    const worst = normal.reduce((least, id) => Math.min(least, this.scores[id]), Infinity);
    this.unknownScore = Math.fround(worst - UNKNOWN_PENALTY);
  }

  encode(line) {
    const characters = [...this.normalize(line)];
    const ids = this.model === BPE ? this.mergePairs(characters) : this.bestPath(characters);
    // Neighboring unknown characters are one token.
    return ids.filter((id, i) => id !== this.unknown || ids[i - 1] !== this.unknown);
  }

  normalize(line) {
    const encoded = this.rules.encoded(line);
    const text = this.charsmap ? this.charsmap.apply(encoded) : encoded;
    return text && SPACE + text.replaceAll(" ", SPACE);
  }

  // The most probable segmentation (Viterbi). Sums are rounded as the library rounds them: it
  // compares in float64 and stores float32.
  bestPath(characters) {
    const size = characters.length;
    const best = new Float32Array(size + 1), starts = new Int32Array(size + 1).fill(-1);
    const ids = new Int32Array(size + 1);
    const offer = (start, end, id, score) => {
      const total = best[start] + score;
      if (starts[end] >= 0 && total <= best[end]) return;
      best[end] = total;
      starts[end] = start;
      ids[end] = id;
    };
    for (let start = 0; start < size; start++) {
      let piece = "";
      for (let end = start + 1; end <= Math.min(size, start + this.longest); end++) {
        piece += characters[end - 1];
        const id = this.ids.get(piece);
        if (id !== undefined) offer(start, end, id, this.scores[id]);
      }
      if (!this.ids.has(characters[start])) {
        offer(start, start + 1, this.unknown, this.unknownScore);
      }
    }
    const path = [];
    for (let end = size; end > 0; end = starts[end]) path.push(ids[end]);
    return path.reverse();
  }

  // Byte-pair encoding: join the pair with the best score, the leftmost of equal ones.
  mergePairs(characters) {
    const parts = [...characters];
    const scoreAt = (i) => this.scores[this.ids.get(parts[i] + parts[i + 1])] ?? -Infinity;
    const scores = parts.slice(1).map((_, i) => scoreAt(i)); // of each part and the next one
    for (;;) {
      let place = 0;
      for (let i = 1; i < scores.length; i++) if (scores[i] > scores[place]) place = i;
      if (!(scores[place] > -Infinity)) break;
      parts.splice(place, 2, parts[place] + parts[place + 1]);
      scores.splice(place, 1);
      if (place > 0) scores[place - 1] = scoreAt(place - 1);
      if (place < scores.length) scores[place] = scoreAt(place);
    }
    return parts.map((part) => this.ids.get(part) ?? this.unknown);
  }

  decode(ids) {
    let text = "", isStart = true; // where the space that encoding adds is removed
    for (const id of ids) {
      if (this.kinds[id] === CONTROL) continue;
      const piece = this.pieces[id];
      if (id === this.unknown) text += this.unknownText;
      else text += piece.slice(isStart && piece.startsWith(SPACE)).replaceAll(SPACE, " ");
      isStart = false;
    }
    return this.rules.decoded(text);
  }

  tokens(ids) {
    return ids.map((id) => this.rules.decoded(this.pieces[id]));
  }
}

// The values of each field of a Protocol Buffers message; texts and messages stay bytes.
function readFields(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const fields = {};
  let at = 0;
  const readNumber = () => {
    let number = 0;
    for (let unit = 1; ; unit *= 128) {
      const byte = bytes[at++];
      number += (byte % 128) * unit;
      if (byte < 128) return number;
    }
  };
  const readValue = (type) => {
    if (type === 0) return readNumber();
    const size = { 1: 8, 2: 0, 5: 4 }[type] || readNumber();
    const start = at;
    at += size;
    if (type === 5) return view.getFloat32(start, true);
    return type === 1 ? view.getFloat64(start, true) : bytes.subarray(start, at);
  };
  while (at < bytes.length) {
    const tag = readNumber(), number = Math.floor(tag / 8);
    (fields[number] ??= []).push(readValue(tag % 8));
  }
  return fields;
}

// A byte order mark is a character like others.
function toText(bytes) {
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
}

// The rules of normalization: a double-array trie (Darts) from bytes to places of the new texts.
class Charsmap {
  constructor(bytes) {
    const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
    const size = view.getUint32(0, true);
    this.units = Uint32Array.from({ length: size / 4 }, (_, i) => view.getUint32(4 + 4 * i, true));
    this.texts = bytes.subarray(4 + size); // each ends with 0
  }

  // Replace the longest match at each place; a character without a match stays.
  apply(line) {
    const bytes = new TextEncoder().encode(line), output = [];
    for (let at = 0; at < bytes.length;) {
      const { length, place } = this.longestMatch(bytes, at);
      for (let i = place; length && this.texts[i]; i++) output.push(this.texts[i]);
      if (!length) output.push(bytes[at]);
      at += length || 1;
      while (!length && (bytes[at] & 0xc0) === 0x80) output.push(bytes[at++]);
    }
    return toText(new Uint8Array(output));
  }

  longestMatch(bytes, start) {
    const offset = (unit) => (unit >>> 10) << ((unit & 0x200) >>> 6);
    let node = offset(this.units[0]), length = 0, place = 0;
    for (let at = start; at < bytes.length; at++) {
      node ^= bytes[at];
      const unit = this.units[node];
      if (((unit & 0x800000ff) >>> 0) !== bytes[at]) break;
      node ^= offset(unit);
      if (unit & 0x100) {
        length = at - start + 1;
        place = this.units[node] & 0x7fffffff;
      }
    }
    return { length, place };
  }
}
