// Greedy and beam search for one sentence; follows seq2seq/search/loop.py.
const ROOT = -1; // the cell before the first token of a hypothesis

// Return the best hypotheses of a source with some symbols, best first. `model` has `symbols`, their
// ids, `vocabularySize`, `encode(ids)` and `step(tokens, totals, width, memory, missing, states)`;
// `config` has the fields of BeamConfig.
async function search(model, sourceIds, config, numSymbols = 0) {
  const ids = [...sourceIds, EOS];
  const limit = Math.trunc(config.max_length_ratio * ids.length) + config.max_length_offset;
  const isExact = config.early_stopping === "exact";
  const numKept = isExact ? config.n_best : config.beam_size;
  let { memory, states } = await model.encode(ids);
  let missing = [model.symbols.map((_, place) => place < numSymbols)]; // of each hypothesis
  let tokens = [BOS], cells = [ROOT], totals = [0];
  let best = []; // finished hypotheses: their last cells and scores, best first
  const history = []; // of each cell: token, cell before it, total, attention weights

  for (let length = 1; ; length++) {
    const width = Math.min(config.beam_size, tokens.length * model.vocabularySize);
    const step = await model.step(tokens, totals, width, memory, missing, states);
    totals = step.totals;
    if (totals.some(Number.isNaN)) throw new Error("the model's probabilities are not numbers");
    const rows = step.indices.map((index) => Math.floor(index / model.vocabularySize));
    const parents = rows.map((row) => cells[row]);
    tokens = step.indices.map((index) => index % model.vocabularySize);
    cells = tokens.map((_, i) => history.length + i);
    tokens.forEach((token, i) => history.push(
      { token, parent: parents[i], total: totals[i], weights: step.weights[rows[i]] }));

    // Finished hypotheses: earlier ones come first and the sort is stable, so they win ties.
    const scores = totals.map((total) => total / penaltyOf(length, config));
    const ends = cells.map((cell, i) => ({ cell, score: scores[i] }));
    const isEnded = (_, i) => tokens[i] === EOS && scores[i] > -Infinity;
    best = sorted([...best, ...ends.filter(isEnded)]).slice(0, numKept);
    totals = totals.map((total, i) => (tokens[i] === EOS ? -Infinity : total));

    const most = Math.max(...totals), worst = best[numKept - 1]?.score ?? -Infinity;
    const goesOn = isExact ? most / penaltyOf(limit, config) > worst
      : most > -Infinity && worst === -Infinity;
    if (!goesOn || limit <= length) {
      // Live hypotheses come last, even with higher scores.
      const live = sorted(ends.filter((_, i) => totals[i] > -Infinity));
      return [...best, ...live].slice(0, config.n_best).map((end) => trace(history, end));
    }
    states = step.select(rows);
    missing = rows.map((row, i) =>
      missing[row].map((isMissing, place) => isMissing && tokens[i] !== model.symbols[place]));
  }
}

function penaltyOf(length, { length_penalty }) {
  return ((5 + length) / 6) ** length_penalty;
}

function sorted(ends) {
  return ends.sort((one, other) => other.score - one.score);
}

// Follow a hypothesis back to its first token.
function trace(history, { cell, score }) {
  const path = [];
  for (let at = cell; at !== ROOT; at = history[at].parent) path.unshift(history[at]);
  const ids = path.map(({ token }) => token), isFinished = ids.at(-1) === EOS;
  return {
    ids: isFinished ? ids.slice(0, -1) : ids,
    score,
    logProbability: history[cell].total,
    isFinished,
    weights: path.map(({ weights }) => weights), // [T][N][S]
  };
}
