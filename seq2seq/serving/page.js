"use strict";
const PAUSE = 300; // milliseconds without typing, after which the text is translated
const NUM_BEST = 4;
const STRONGEST = 3; // tokens that are read out, if they have at least 5 %
const WORD_START = "\u2581", END = "</s>";

const find = (id) => document.getElementById(id);
const percent = (weight) => weight > 0 && weight < 0.005 ? "< 1 %" : `${Math.round(100 * weight)} %`;

let pairs = {}; // codes of the targets, by source
let names = {};
let limit = 0; // characters
let timer = null;
let running = null; // AbortController of the request on its way
let sentences = []; // of the answer
let current = 0; // the sentence on show
let ranks = []; // the chosen hypothesis of each sentence
let tokens = { source: [], target: [] }; // elements
let weights = null; // [target][source] of the chosen head

async function ask(path, content, signal) {
  const options = content && {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify(find("key").value ? { ...content, api_key: find("key").value } : content),
    signal,
  };
  const response = await fetch(path, options || { signal });
  let answer = {};
  try {
    answer = await response.json();
  } catch (error) {
    if (error.name === "AbortError") throw error;
  }
  if (!response.ok) {
    const error = new Error(answer.error || `the service answered ${response.status}`);
    error.status = response.status;
    throw error;
  }
  return answer;
}

function say(text, isWrong = false) {
  find("status").textContent = text;
  find("status").classList.toggle("is-wrong", isWrong);
}

function fill(select, codes, chosen) {
  select.replaceChildren(...codes.map((code) => new Option(names[code], code)));
  if (codes.includes(chosen)) select.value = chosen;
}

function fillTargets(chosen) {
  const source = find("source").value;
  fill(find("target"), pairs[source], chosen);
  find("text").lang = source;
  find("result").lang = find("target").value;
  find("swap").disabled = !(pairs[find("target").value] || []).includes(source);
}

async function start() {
  try {
    const [languages, settings] = await Promise.all([ask("languages"), ask("frontend/settings")]);
    for (const each of languages) {
      names[each.code] = each.name;
      if (each.targets.length) pairs[each.code] = each.targets;
    }
    limit = settings.charLimit;
    find("key-line").hidden = !settings.keyRequired;
    fill(find("source"), Object.keys(pairs), settings.language.source.code);
    fillTargets(settings.language.target.code);
    document.documentElement.dataset.ready = "true";
    textChanged();
  } catch (error) {
    say(`The service cannot be reached: ${error.message}`, true);
  }
}

function textChanged() {
  const count = [...find("text").value].length;
  find("count").textContent = `${count} / ${limit}`;
  find("count").classList.toggle("is-wrong", count > limit);
  find("clear").disabled = count === 0;
  translateSoon(PAUSE);
}

function translateSoon(pause) {
  clearTimeout(timer);
  running?.abort();
  running = null;
  timer = setTimeout(translate, pause);
}

async function translate() {
  clearTimeout(timer);
  running?.abort();
  const text = find("text").value;
  if (!text.trim()) {
    show({ text: "", sentences: [] });
    say("");
    return;
  }
  const own = (running = new AbortController());
  const wanted = { text, source: find("source").value, target: find("target").value };
  say("Translating ...");
  find("result").classList.add("is-waiting");
  try {
    let answer;
    try {
      answer = await ask("v1/translate", { ...wanted, n_best: NUM_BEST, attention: true }, own.signal);
    } catch (error) {
      if (error.status !== 413 && error.status !== 400) throw error;
      // Too much attention for one answer, or a smaller beam: the translation alone.
      answer = await ask("v1/translate", wanted, own.signal);
    }
    show(answer.translations[0]);
    const unknown = sentences.reduce((sum, each) => sum + each.unknown_tokens, 0);
    say(unknown ? `${unknown} parts of the text are unknown to the model` : "");
  } catch (error) {
    if (error.name !== "AbortError") say(error.message, true);
  } finally {
    if (running === own) find("result").classList.remove("is-waiting");
  }
}

function show(translation) {
  find("result").value = translation.text;
  find("result").classList.remove("is-waiting");
  find("copy").disabled = !translation.text;
  sentences = translation.sentences;
  ranks = sentences.map(() => 0);
  find("details").hidden = !sentences.length;
  if (sentences.length) showSentence(0);
}

function showSentence(index) {
  current = index;
  find("place").textContent = sentences.length > 1 ? `Sentence ${index + 1} of ${sentences.length}` : "";
  find("previous").parentNode.hidden = sentences.length < 2;
  find("previous").disabled = index === 0;
  find("next").disabled = index === sentences.length - 1;
  const { hypotheses } = sentences[index];
  find("alternatives-part").hidden = hypotheses.length < 2;
  find("alternatives").replaceChildren(...hypotheses.map((hypothesis, rank) => {
    const item = document.createElement("li"), button = document.createElement("button");
    const probability = document.createElement("small");
    button.type = "button";
    button.dir = "auto";
    button.lang = find("target").value;
    button.textContent = `${hypothesis.text} `;
    probability.textContent = percent(Math.exp(hypothesis.log_probability));
    button.append(probability);
    button.addEventListener("click", () => choose(rank));
    item.append(button);
    return item;
  }));
  choose(ranks[index]);
}

function choose(rank) {
  ranks[current] = rank;
  const hypothesis = sentences[current].hypotheses[rank];
  [...find("alternatives").children].forEach((item, index) =>
    item.firstChild.setAttribute("aria-pressed", String(index === rank)));
  if (sentences.length === 1) find("result").value = hypothesis.text;
  const heads = hypothesis.attention || [];
  find("attention-part").hidden = !heads.length;
  if (!heads.length) return;
  const before = find("head").value;
  const choices = heads.length > 1 ? [new Option("mean of all", "mean")] : [];
  find("head").replaceChildren(...choices, ...heads.map((_, n) => new Option(String(n + 1), String(n))));
  if ([...find("head").options].some((option) => option.value === before)) find("head").value = before;
  find("head-line").hidden = heads.length < 2;
  drawTokens("source", sentences[current].source_tokens);
  drawTokens("target", hypothesis.tokens);
  chooseHead();
}

function chooseHead() {
  const heads = sentences[current].hypotheses[ranks[current]].attention;
  const head = find("head").value;
  weights = head !== "mean" ? heads[Number(head)] : heads[0].map((row, target) =>
    row.map((_, source) => heads.reduce((sum, each) => sum + each[target][source], 0) / heads.length));
  unpoint();
}

function drawTokens(side, labels) {
  tokens[side] = labels.map((label, index) => {
    const element = document.createElement("span");
    const isEnd = label === END;
    element.textContent = isEnd ? "end" : label.replaceAll(WORD_START, "") || "\u00a0";
    element.classList.toggle("begins-word", isEnd || label.startsWith(WORD_START));
    element.classList.toggle("is-end", isEnd);
    element.setAttribute("role", "option");
    element.setAttribute("aria-selected", "false");
    element.tabIndex = index === 0 ? 0 : -1;
    element.addEventListener("pointerenter", () => point(side, index));
    element.addEventListener("focus", () => point(side, index));
    element.addEventListener("click", () => point(side, index));
    element.addEventListener("keydown", (event) => move(event, side, index));
    return element;
  });
  find(`${side}-tokens`).replaceChildren(...tokens[side]);
}

function move(event, side, index) {
  const isMirrored = getComputedStyle(find(`${side}-tokens`)).direction === "rtl";
  const step = { ArrowRight: isMirrored ? -1 : 1, ArrowLeft: isMirrored ? 1 : -1 }[event.key];
  const last = tokens[side].length - 1;
  const goal = { Home: 0, End: last }[event.key] ?? (step && Math.min(last, Math.max(0, index + step)));
  if (goal === undefined) return;
  event.preventDefault();
  tokens[side][index].tabIndex = -1;
  tokens[side][goal].tabIndex = 0;
  tokens[side][goal].focus();
}

function unpoint() {
  for (const element of [...tokens.source, ...tokens.target]) {
    element.style.setProperty("--weight", "0");
    element.classList.remove("is-chosen", "is-seen");
    element.setAttribute("aria-selected", "false");
  }
  find("reading").textContent = "";
}

function point(side, index) {
  unpoint();
  const other = side === "target" ? "source" : "target";
  const row = side === "target" ? weights[index] : weights.map((each) => each[index]);
  const chosen = tokens[side][index];
  chosen.classList.add("is-chosen");
  chosen.setAttribute("aria-selected", "true");
  row.forEach((weight, place) => {
    tokens[other][place].style.setProperty("--weight", String(Math.min(1, weight)));
    tokens[other][place].classList.toggle("is-seen", weight >= 0.2);
  });
  const strongest = row.map((weight, place) => [weight, tokens[other][place].textContent])
    .filter(([weight]) => weight >= 0.05).sort((one, two) => two[0] - one[0]).slice(0, STRONGEST)
    .map(([weight, word]) => `${word} ${percent(weight)}`).join(", ");
  const relation = side === "target" ? "looked at" : "was looked at by";
  find("reading").textContent = `${chosen.textContent} ${relation}: ${strongest || "no word in particular"}`;
}

find("text").addEventListener("input", textChanged);
find("text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) translate();
});
find("key").addEventListener("change", () => translateSoon(0));
find("key-line").addEventListener("submit", (event) => { event.preventDefault(); translateSoon(0); });
find("source").addEventListener("change", () => { fillTargets(); translateSoon(0); });
find("target").addEventListener("change", () => { fillTargets(find("target").value); translateSoon(0); });
find("swap").addEventListener("click", () => {
  const [source, target, result] = [find("source").value, find("target").value, find("result").value];
  find("source").value = target;
  fillTargets(source);
  if (result) find("text").value = result;
  textChanged();
});
find("clear").addEventListener("click", () => {
  find("text").value = "";
  textChanged();
  find("text").focus();
});
find("copy").addEventListener("click", async () => {
  try {
    await navigator.clipboard.writeText(find("result").value);
  } catch { // not over HTTP from another machine
    find("result").select();
    document.execCommand("copy");
  }
  say("Copied");
});
find("previous").addEventListener("click", () => showSentence(current - 1));
find("next").addEventListener("click", () => showSentence(current + 1));
find("head").addEventListener("change", chooseHead);
for (const side of ["source", "target"]) find(`${side}-tokens`).addEventListener("pointerleave", unpoint);
start();
