// A translator over the exported graphs: SentencePiece, the search, and onnxruntime-web.
class Graphs {
  constructor(encoder, stepGraph, states, symbols, vocabularySize) {
    Object.assign(this, { encoder, stepGraph, states, symbols, vocabularySize });
    this.onStep = async () => {}; // called before each step
  }

  async encode(ids) {
    const mask = new ort.Tensor("bool", new Uint8Array(ids.length).fill(1), [1, ids.length]);
    const found = await this.encoder.run({ source_ids: this.integers(ids), source_mask: mask });
    const memory = { keys: found.keys, values: found.values, source_mask: mask };
    return { memory, states: Object.fromEntries(this.states.map((name) => [name, found[name]])) };
  }

  // Return the best extensions of the hypotheses, and `select(rows)`: the states of these rows.
  async step(tokens, totals, width, memory, missing, states) {
    await this.onStep();
    const bits = Uint8Array.from(missing.flat()), shape = [missing.length, this.symbols.length];
    const found = await this.stepGraph.run({
      previous_ids: this.integers(tokens),
      totals: new ort.Tensor("float32", Float32Array.from(totals), [1, totals.length]),
      slots: new ort.Tensor("int64", new BigInt64Array(width), [width]),
      ...memory,
      ...(this.symbols.length && { missing: new ort.Tensor("bool", bits, shape) }),
      ...states,
    });
    const [numRows, numHeads] = found.weights.dims;
    const weights = parts(found.weights.data, numRows).map((row) => parts(row, numHeads));
    const select = (rows) => Object.fromEntries(this.states.map((name) =>
      [name, this.rowsOf(found[`new_${name}`], rows)]));
    return { totals: [...found.best.data], indices: [...found.indices.data].map(Number), weights,
      select };
  }

  integers(values) {
    return new ort.Tensor("int64", BigInt64Array.from(values, BigInt), [1, values.length]);
  }

  rowsOf(tensor, rows) {
    const [numRows, ...rest] = tensor.dims;
    const size = tensor.data.length / numRows, all = parts(tensor.data, numRows);
    const data = new Float32Array(rows.length * size);
    rows.forEach((row, i) => data.set(all[row], i * size));
    return new ort.Tensor("float32", data, [rows.length, ...rest]);
  }
}

// Split numbers into equal parts.
function parts(numbers, count) {
  const size = numbers.length / count;
  return Array.from({ length: count }, (_, i) => numbers.subarray(i * size, (i + 1) * size));
}

const BLANK = new RegExp(`^${WHITE}*$`);

// Return the hypotheses whose text no earlier one has.
function distinct(hypotheses) {
  const texts = hypotheses.map(({ text }) => text);
  return hypotheses.filter(({ text }, rank) => texts.indexOf(text) === rank);
}

class Translator {
  constructor(graphs, source, target, rules, sentences, model) {
    Object.assign(this, { graphs, source, target, rules, sentences, model });
  }

  // Return the sentences of a line, and markers before them, or the line; nothing of a blank line.
  split(line) {
    const text = this.rules.normalize(line);
    if (BLANK.test(text)) return [];
    const tags = this.rules.leadingTags(text), rest = text.slice(tags.length);
    if (!this.model.hasSentences || BLANK.test(rest)) return [line];
    const sentences = this.sentences.split(rest);
    const pieces = this.model.keepsOtherText ? sentences.flatMap((sentence) =>
      this.sentences.splitMarker(sentence).filter(Boolean)) : sentences;
    return pieces.map((piece) => (this.stays(piece) ? piece : tags.trimStart() + piece));
  }

  // Whether a piece of a line stays as it is, because it has no words.
  stays(piece) {
    return this.sentences.isBreak(piece)
      || (this.model.keepsOtherText && !this.sentences.hasWords(piece));
  }

  // Translate a text line by line and sentence by sentence, as the service does, and join the
  // results. The nth translation joins the nth of each sentence; no token has weight in another
  // sentence.
  async translateText(text, config) {
    const lines = [];
    for (const line of text.split(/\r\n|\n|\r/)) {
      lines.push([]);
      for (const sentence of this.split(line)) {
        lines.at(-1).push(await this.translate(sentence, config));
      }
    }
    const parts = lines.flat();
    const ranks = Math.max(0, ...parts.map(({ hypotheses }) => hypotheses.length));
    return {
      sourceIds: parts.flatMap(({ sourceIds }) => sourceIds),
      sourceTokens: parts.flatMap(({ sourceTokens }) => sourceTokens),
      hypotheses: distinct([...Array(ranks).keys()].map((rank) => this.join(lines, rank))),
    };
  }

  // Return the source's tokens and the distinct translations of a line, best first; none for
  // whitespace. Text without words stays as it is.
  async translate(line, config) {
    if (BLANK.test(line)) return { ...this.keep(line), hypotheses: [] };
    if (this.stays(line)) return this.keep(line);
    const { text, spans } = this.rules.prepare(line);
    const isRecased = this.model.recases && inCapitals(text);
    const ids = this.source.encode(isRecased ? recase(text, (word) => this.cost(word)) : text);
    if (!ids.length) return this.keep(line); // only invisible characters
    // Several segmentations may have one text, so the search returns more than are shown.
    const most = config.n_best === 1 ? 1 : config.beam_size;
    const found = await search(this.graphs, ids, { ...config, n_best: most }, spans.length);
    const labels = (tokenizer, tokens) =>
      tokenizer.tokens(tokens).map((label) => restore(label, spans));
    const hypotheses = found.map((each) => {
      const decoded = this.target.decode(each.ids).replaceAll("\n", " ");
      return {
        ...each,
        text: restore(isRecased ? decoded.toUpperCase() : decoded, spans),
        tokens: labels(this.target, each.isFinished ? [...each.ids, EOS] : each.ids),
      };
    });
    return {
      sourceIds: ids,
      sourceTokens: labels(this.source, [...ids, EOS]),
      hypotheses: distinct(hypotheses).slice(0, config.n_best),
    };
  }

  // Return the numbers of unknown and of all tokens of a word, as one number.
  cost(word) {
    const ids = this.source.encode(word);
    return 1000 * ids.filter((id) => id === UNK).length + ids.length;
  }

  // Return a text as its own translation.
  keep(line) {
    const tokens = this.source.tokens([EOS]), { sentences } = this;
    const text = sentences.isBreak(line) ? line : sentences.strip(line);
    const weights = [Array(this.model.numHeads).fill([0])];
    const hypothesis = {
      text, ids: [], tokens, weights, score: 0, logProbability: 0, isFinished: true };
    return { sourceIds: [], sourceTokens: tokens, hypotheses: [hypothesis] };
  }

  // Join the hypotheses of a rank, or the last ones of sentences that have fewer; the fields are
  // those of the service.
  join(lines, rank) {
    const all = lines.flat(), found = ({ hypotheses }) => hypotheses[rank] ?? hypotheses.at(-1);
    const chosen = all.map(found);
    const widen = (row, place) => all.flatMap(({ sourceTokens }, at) =>
      (at === place ? [...row] : Array(sourceTokens.length).fill(0)));
    const attentionOf = (head) => chosen.flatMap(({ weights }, place) =>
      weights.map((heads) => widen(heads[head], place)));
    return {
      text: lines.map((line) => this.sentences.join(line.map((part) => found(part).text)))
        .join("\n"),
      tokens: chosen.flatMap(({ tokens }) => tokens),
      log_probability: chosen.reduce((total, each) => total + each.logProbability, 0),
      isFinished: chosen.every(({ isFinished }) => isFinished),
      attention: [...Array(this.model.numHeads).keys()].map(attentionOf),
    };
  }
}
