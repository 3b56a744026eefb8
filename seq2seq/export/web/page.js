// The page: reads its model, translates while the reader types, and shows the attention.
const model = JSON.parse(find("model").textContent);
const box = find("text"), beam = find("beam");
const PATIENCE = 30; // milliseconds of work between two checks of the keyboard
const STALE = new Error("the text has changed");

let translator = null;
let isBusy = false;
let isStale = false; // the text has changed since the search began

// The files are embedded in the page, compressed, as base64.
async function unpack(name) {
  const block = find(`file-${name}`), text = atob(block.textContent);
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i);
  block.remove();
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

async function load() {
  ort.env.wasm.numThreads = 1;
  ort.env.wasm.wasmBinary = await unpack("wasm");
  const rules = new TextRules(model.rules), sentences = new SentenceRules(model.sentences);
  const replace = readCharsmap(await unpack("charsmap"));
  const described = JSON.parse(new TextDecoder().decode(await unpack("tokenizers")));
  // Both languages may have one tokenizer.
  const [source, target = source] = described.map((each) =>
    new SentencePiece(each, replace, rules));
  const open = async (name) => ort.InferenceSession.create(
    await unpack(name), { executionProviders: ["wasm"], logSeverityLevel: 3 });
  const graphs = new Graphs(await open("encoder"), await open("step"), model.states, model.symbols,
    target.pieces.length);
  graphs.onStep = breathe();
  return new Translator(graphs, source, target, rules, sentences, model);
}

// Return a function that lets the browser work now and then, and stops a search that is stale.
function breathe() {
  let last = performance.now();
  return async () => {
    if (performance.now() - last < PATIENCE) return;
    await new Promise((resolve) => setTimeout(resolve));
    last = performance.now();
    if (isStale) throw STALE;
  };
}

function fail(error) {
  showSentence({ hypotheses: [] });
  const isOld = typeof DecompressionStream === "undefined" || typeof WebAssembly === "undefined";
  say(isOld ? "This browser is too old for the page; one from 2024 or later can run it."
    : `The model does not run: ${error.message}`, true);
}

async function update() {
  isStale = true;
  if (isBusy) return; // the loop below goes round again
  isBusy = true;
  while (isStale) {
    isStale = false;
    await translate().catch((error) => {
      if (error !== STALE) fail(error);
    });
  }
  isBusy = false;
}

async function translate() {
  const size = Number(beam.value), begin = performance.now();
  const { hypotheses, sourceIds, sourceTokens } = await translator.translateText(
    box.value, { ...model.decoding, beam_size: size, n_best: size });
  const unknown = sourceIds.filter((id) => id === UNK).length;
  const time = `${Math.round(performance.now() - begin)} ms`;
  const isCut = hypotheses[0]?.isFinished === false;
  const warnings = `${unknown ? `; unknown tokens: ${unknown}` : ""}${isCut ? "; cut at the length limit" : ""}`;
  say(hypotheses.length ? time + expectedChrf(hypotheses[0]) + warnings : "");
  showSentence({ source_tokens: sourceTokens, hypotheses });
}

function expectedChrf({ log_probability, tokens }) {
  if (!model.confidence || !tokens.length) return "";
  const { slope, intercept } = model.confidence;
  const value = intercept + slope * Math.exp(log_probability / tokens.length / 2);
  return `; expected chrF ${Math.round(Math.min(Math.max(value, 0), 100))}`;
}

// The name of a language in English; an unknown code stays as it is.
function nameOf(code) {
  try {
    return new Intl.DisplayNames(["en"], { type: "language" }).of(code);
  } catch {
    return code;
  }
}

function write(text) {
  box.value = text;
  update();
}

async function start() {
  const sizes = [...new Set([1, 2, 3, 5, 10, model.decoding.beam_size])].sort((a, b) => a - b);
  beam.append(...sizes.map((size) => new Option(size === 1 ? "1, greedy" : size, size)));
  beam.value = model.decoding.beam_size;
  document.title = `Translate ${nameOf(model.source)} into ${nameOf(model.target)}`;
  document.querySelector("h1").textContent = document.title;
  nameLanguages(model.source, model.target, nameOf);
  find("examples").append(...model.examples.map((text) => element("button", text, {
    type: "button", lang: model.source, onclick: () => write(text) })));
  find("examples").hidden = !model.examples.length;
  translator = await load();
  main.setAttribute("aria-busy", "false");
  beam.disabled = false;
  say("");
  box.addEventListener("input", update);
  beam.addEventListener("change", update);
  if (!box.value) box.value = model.examples[0] ?? "";
  await update();
}

addEventListener("DOMContentLoaded", () => start().catch(fail)); // the module before has run by then
