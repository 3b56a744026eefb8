// Greedy and beam search for one sentence; follows seq2seq/search/loop.py.

// Return the best hypotheses of a source with some symbols, best first. `model` has `symbols`, their
// ids, `vocabularySize`, `encode(ids)` and `step(tokens, totals, width, memory, missing, states)`;
// `config` has the fields of BeamConfig.
async function search(model, sourceIds, config, numSymbols = 0) {
  const source = [...sourceIds, EOS];
  const limit = Math.trunc(config.max_length_ratio * source.length) + config.max_length_offset;
  const isExact = config.early_stopping === "exact";
  const numKept = isExact ? config.n_best : config.beam_size;
  const penaltyOf = (length) => ((5 + length) / 6) ** config.length_penalty;
  const sorted = (hypotheses) => hypotheses.sort((one, other) => other.score - one.score);
  const missing = model.symbols.map((_, place) => place < numSymbols);
  let { memory, states } = await model.encode(source);
  let beam = [{ token: BOS, ids: [], weights: [], missing }];
  let totals = [0]; // log-probabilities; those of finished hypotheses are -Infinity
  let best = []; // finished hypotheses

  for (let length = 1; ; length++) {
    const width = Math.min(config.beam_size, beam.length * model.vocabularySize);
    const step = await model.step(beam.map(({ token }) => token), totals, width, memory,
      beam.map((each) => each.missing), states);
    if (step.totals.some(Number.isNaN)) throw new Error("the model's probabilities are not numbers");
    const rows = step.indices.map((index) => Math.floor(index / model.vocabularySize));
    beam = rows.map((row, i) => {
      const token = step.indices[i] % model.vocabularySize, isFinished = token === EOS;
      return {
        token,
        isFinished,
        ids: isFinished ? beam[row].ids : [...beam[row].ids, token],
        score: step.totals[i] / penaltyOf(length),
        logProbability: step.totals[i],
        weights: [...beam[row].weights, step.weights[row]], // [T][N][S]
        missing: beam[row].missing.map((isMissing, place) =>
          isMissing && token !== model.symbols[place]),
      };
    });
    totals = beam.map((each) => (each.isFinished ? -Infinity : each.logProbability));

    // Earlier hypotheses come first and the sort is stable, so they win ties.
    const ended = beam.filter((each) => each.isFinished && each.score > -Infinity);
    best = sorted([...best, ...ended]).slice(0, numKept);
    const most = Math.max(...totals), worst = best[numKept - 1]?.score ?? -Infinity;
    const goesOn = isExact ? most / penaltyOf(limit) > worst
      : most > -Infinity && worst === -Infinity;
    if (!goesOn || limit <= length) {
      // Live hypotheses come last, even with higher scores.
      const live = sorted(beam.filter((_, i) => totals[i] > -Infinity));
      return [...best, ...live].slice(0, config.n_best);
    }
    states = step.select(rows);
  }
}
