// A translator over the exported graphs: SentencePiece, the search, and onnxruntime-web.
class Graphs {
  constructor(ort, encoder, step, { states, symbols, vocabularySize }) {
    Object.assign(this, { ort, encoder, stepGraph: step, states, symbols, vocabularySize });
    this.onStep = async () => {}; // called before each step
  }

  static async load(ort, { encoder, step }, model) {
    const open = (graph) =>
      ort.InferenceSession.create(graph, { executionProviders: ["wasm"], logSeverityLevel: 3 });
    return new Graphs(ort, await open(encoder), await open(step), model);
  }

  async encode(ids) {
    const mask = new this.ort.Tensor("bool", new Uint8Array(ids.length).fill(1), [1, ids.length]);
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
      totals: new this.ort.Tensor("float32", Float32Array.from(totals), [1, totals.length]),
      slots: new this.ort.Tensor("int64", new BigInt64Array(width), [width]),
      ...memory,
      ...(this.symbols.length && { missing: new this.ort.Tensor("bool", bits, shape) }),
      ...states,
    });
    const [numRows, numHeads, size] = found.weights.dims;
    const weights = [...Array(numRows).keys()].map((row) => [...Array(numHeads).keys()].map(
      (head) => found.weights.data.subarray(...range(row * numHeads + head, size))));
    const select = (rows) => Object.fromEntries(this.states.map((name) =>
      [name, this.rowsOf(found[`new_${name}`], rows)]));
    return { totals: [...found.best.data], indices: [...found.indices.data].map(Number), weights,
      select };
  }

  integers(values) {
    return new this.ort.Tensor("int64", BigInt64Array.from(values, BigInt), [1, values.length]);
  }

  rowsOf(tensor, rows) {
    const [numRows, ...rest] = tensor.dims;
    if (rows.length === numRows && rows.every((row, i) => row === i)) return tensor;
    const size = tensor.data.length / numRows;
    const data = new Float32Array(rows.length * size);
    rows.forEach((row, i) => data.set(tensor.data.subarray(...range(row, size)), i * size));
    return new this.ort.Tensor("float32", data, [rows.length, ...rest]);
  }
}

function range(index, size) {
  return [index * size, (index + 1) * size];
}

const BLANK = new RegExp(`^${WHITE}*$`);

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
      hypotheses: [...Array(ranks).keys()].map((rank) => this.join(lines, rank)).filter(
        ({ text }, rank, all) => all.findIndex((each) => each.text === text) === rank),
    };
  }

  // Return the source's tokens and the distinct translations of a line, best first; none for
  // whitespace. Text without words stays as it is.
  async translate(line, config) {
    if (this.stays(line) && !BLANK.test(line)) return this.keep(line);
    const { text, spans } = this.rules.prepare(line);
    const isRecased = this.model.recases && inCapitals(text);
    const read = isRecased ? recase(text, (word) => this.cost(word)) : text;
    const ids = BLANK.test(line) ? [] : this.source.encode(read);
    if (!ids.length && !BLANK.test(line)) return this.keep(line); // only invisible characters
    // Several segmentations may have one text, so the search returns more than are shown.
    const most = config.n_best === 1 ? 1 : config.beam_size;
    const found = ids.length
      ? await search(this.graphs, ids, { ...config, n_best: most }, spans.length) : [];
    const texts = found.map((each) => {
      const decoded = this.target.decode(each.ids).replaceAll("\n", " ");
      return restore(isRecased ? decoded.toUpperCase() : decoded, spans);
    });
    const labels = (tokenizer, tokens) =>
      tokenizer.tokens(tokens).map((label) => restore(label, spans));
    const hypotheses = found.map((hypothesis, rank) => ({
      ...hypothesis,
      text: texts[rank],
      tokens: labels(this.target,
        hypothesis.isFinished ? [...hypothesis.ids, EOS] : hypothesis.ids),
    }));
    return {
      sourceIds: ids,
      sourceTokens: labels(this.source, [...ids, EOS]),
      hypotheses: hypotheses.filter(({ text }, rank) => texts.indexOf(text) === rank)
        .slice(0, config.n_best),
    };
  }

  // Return the numbers of unknown and of all tokens of a word, as one number.
  cost(word) {
    const ids = this.source.encode(word);
    return 1000 * ids.filter((id) => id === UNK).length + ids.length;
  }

  // Return a text as its own translation.
  keep(line) {
    const tokens = this.source.tokens([EOS]), text = this.sentences.kept(line);
    const weights = [Array(this.model.numHeads).fill([0])];
    const scores = { score: 0, logProbability: 0 };
    const hypothesis = { text, ids: [], tokens, weights, ...scores, isFinished: true };
    return { sourceIds: [], sourceTokens: tokens, hypotheses: [hypothesis] };
  }

  // Join the hypotheses of a rank, or the last ones of sentences that have fewer.
  join(lines, rank) {
    const parts = lines.flat(), found = ({ hypotheses }) =>
      hypotheses[Math.min(rank, hypotheses.length - 1)];
    const sizes = parts.map(({ sourceTokens }) => sourceTokens.length);
    const chosen = parts.map(found);
    const sum = (values) => values.reduce((total, value) => total + value, 0);
    const weights = chosen.flatMap((hypothesis, index) => hypothesis.weights.map((heads) =>
      heads.map((row) => [...Array(sum(sizes.slice(0, index))).fill(0), ...row,
        ...Array(sum(sizes.slice(index + 1))).fill(0)])));
    return {
      text: lines.map((line) => this.sentences.join(line.map((part) => found(part).text)))
        .join("\n"),
      tokens: chosen.flatMap(({ tokens }) => tokens),
      logProbability: sum(chosen.map(({ logProbability }) => logProbability)),
      isFinished: chosen.every(({ isFinished }) => isFinished),
      weights,
    };
  }
}
