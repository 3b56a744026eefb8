// A translator over the exported graphs: SentencePiece, the search, and onnxruntime-web.
class Graphs {
  constructor(ort, encoder, step, model) {
    Object.assign(this, { ort, encoder, stepGraph: step, states: model.states });
    this.vocabularySize = model.vocabularySize;
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
  async step(tokens, totals, width, memory, states) {
    await this.onStep();
    const found = await this.stepGraph.run({
      previous_ids: this.integers(tokens),
      totals: new this.ort.Tensor("float32", Float32Array.from(totals), [1, totals.length]),
      slots: new this.ort.Tensor("int64", new BigInt64Array(width), [width]),
      ...memory,
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

// What Python's `str.strip` removes.
const BLANK = /^[\t-\r\x1c-\x20\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]*$/;

class Translator {
  constructor(graphs, source, target) {
    Object.assign(this, { graphs, source, target });
  }

  // Return the source's tokens and the translations of a line, best first; none for whitespace.
  async translate(line, config) {
    const ids = BLANK.test(line) ? [] : this.source.encode(line);
    const found = ids.length ? await search(this.graphs, ids, config) : [];
    return {
      sourceIds: ids,
      sourceTokens: this.source.tokens([...ids, EOS]),
      hypotheses: found.map((hypothesis) => ({
        ...hypothesis,
        text: this.target.decode(hypothesis.ids).replaceAll("\n", " "),
        tokens: this.target.tokens(
          hypothesis.isFinished ? [...hypothesis.ids, EOS] : hypothesis.ids),
      })),
    };
  }
}
