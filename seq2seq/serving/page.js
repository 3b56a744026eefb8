// The page of the service, which it asks while the reader types.
const PAUSE = 300; // milliseconds without typing, after which the text is translated
const NUM_BEST = 4; // translations of a sentence
const NOTHING = { text: "", sentences: [] };

let pairs = {}; // codes of the targets, by source
let names = {};
let limit = 0; // characters
let timer = null;
let running = null; // AbortController of the request on its way
let sentences = []; // of the answer
let gaps = []; // the text before each translated sentence, and after the last
let ranks = []; // the chosen hypothesis of each sentence
let current = 0; // the sentence on show

async function ask(path, content, signal) {
  const options = content && {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ ...content, api_key: find("key").value || undefined }),
    signal,
  };
  const response = await fetch(path, options);
  const answer = await response.json().catch(() => ({}));
  signal?.throwIfAborted();
  if (!response.ok) {
    const message = answer.error || `the service answered ${response.status}`;
    throw Object.assign(new Error(message), { status: response.status });
  }
  return answer;
}

function fill(select, codes, chosen) {
  select.replaceChildren(...codes.map((code) =>
    new Option(names[code], code, false, code === chosen)));
}

function fillTargets(chosen) {
  const source = find("from").value;
  fill(find("to"), pairs[source], chosen);
  const target = find("to").value;
  nameLanguages(source, target, (code) => names[code]);
  find("result").lang = target;
  find("swap").disabled = !(pairs[target] || []).includes(source);
}

async function start() {
  const [languages, settings] = await Promise.all([ask("languages"), ask("frontend/settings")]);
  for (const each of languages) {
    names[each.code] = each.name;
    if (each.targets.length) pairs[each.code] = each.targets;
  }
  limit = settings.charLimit;
  find("key-line").hidden = !settings.keyRequired;
  fill(find("from"), Object.keys(pairs), settings.language.source.code);
  fillTargets(settings.language.target.code);
  document.documentElement.dataset.ready = "true";
  textChanged();
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
  find("result").classList.add("is-stale");
  timer = setTimeout(translate, pause);
}

async function translate() {
  running = new AbortController();
  const text = find("text").value, isBlank = !text.trim();
  try {
    say(isBlank ? "" : "Translating ...");
    show(isBlank ? NOTHING : await answerTo(text, running.signal));
    const unknown = sentences.reduce((sum, each) => sum + each.unknown_tokens, 0);
    if (unknown) say(`Parts of the text that are unknown to the model: ${unknown}`);
    else if (!isBlank) say("Translated");
  } catch (error) {
    if (error.name === "AbortError") return;
    show(NOTHING);
    say(error.message, true);
  }
}

async function answerTo(text, signal) {
  const wanted = { text, source: find("from").value, target: find("to").value };
  const all = { ...wanted, n_best: NUM_BEST, attention: true };
  const { translations } = await ask("v1/translate", all, signal).catch((error) => {
    // Perhaps too much attention for one answer: the translation alone.
    if (error.status === 413) return ask("v1/translate", wanted, signal);
    throw error;
  });
  return translations[0];
}

function show(translation) {
  ({ sentences } = translation);
  let end = 0;
  gaps = sentences.map(({ hypotheses: [{ text }] }) => {
    const begin = translation.text.indexOf(text, end), gap = translation.text.slice(end, begin);
    end = begin + text.length;
    return gap;
  });
  gaps.push(translation.text.slice(end));
  ranks = sentences.map(() => 0);
  find("result").classList.remove("is-stale");
  find("details").hidden = !sentences.length;
  writeResult();
  if (sentences.length) moveTo(0);
}

// Join the chosen translations as the service joins the best ones.
function writeResult() {
  const texts = sentences.map((each, index) => gaps[index] + each.hypotheses[ranks[index]].text);
  find("result").value = texts.join("") + gaps.at(-1);
  find("copy").disabled = !find("result").value;
}

function moveTo(index) {
  current = index;
  find("place").textContent = `Sentence ${index + 1} of ${sentences.length}`;
  find("place").parentNode.hidden = sentences.length < 2;
  find("previous").disabled = index === 0;
  find("next").disabled = index === sentences.length - 1;
  showSentence(sentences[index], ranks[index]);
}

find("text").addEventListener("input", textChanged);
find("text").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) translateSoon(0);
});
document.querySelector(".bar").addEventListener("change", () => { // a language or the key
  fillTargets(find("to").value);
  translateSoon(0);
});
find("swap").addEventListener("click", () => {
  const [source, target] = [find("from").value, find("to").value];
  find("from").value = target;
  fillTargets(source);
  const isStale = find("result").classList.contains("is-stale"); // of another text
  find("text").value = (!isStale && find("result").value) || find("text").value;
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
find("previous").addEventListener("click", () => moveTo(current - 1));
find("next").addEventListener("click", () => moveTo(current + 1));
find("hypotheses").addEventListener("change", ({ target }) => {
  ranks[current] = Number(target.value);
  writeResult();
});
start().catch((error) => say(`The service cannot be reached: ${error.message}`, true));
