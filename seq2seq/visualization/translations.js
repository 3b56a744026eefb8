// What the pages that translate share: a status, and the translations of a sentence to choose from.
const main = document.querySelector("main");
const view = new AttentionView(document.querySelector(".attention-view"));

let shown = { hypotheses: [] }; // a sentence as the service's /v1/translate describes it

function say(text, isWrong = false) {
  find("status").textContent = text;
  main.classList.toggle("failed", isWrong);
}

// Offer the translations of a sentence, best first, and show the attention of one.
function showSentence(sentence, chosen = 0) {
  shown = sentence;
  find("hypotheses").replaceChildren(...sentence.hypotheses.map((each, value) => element("label", [
    element("input", [], { type: "radio", name: "hypothesis", value, checked: value === chosen }),
    element("bdi", each.text || "(no text)"),
    element("small", percent(FULL * Math.exp(each.log_probability)), { title: "probability" }),
  ])));
  choose(chosen);
}

function choose(index) {
  const { tokens, attention = [] } = shown.hypotheses[index] ?? {};
  main.classList.toggle("blank", !attention.length);
  if (!attention.length) return;
  view.show({
    source_tokens: shown.source_tokens,
    target_tokens: tokens,
    weights: attention.map((head) => head.map((row) =>
      Array.from(row, (weight) => Math.round(FULL * weight)))),
  });
}

function nameLanguages(source, target, nameOf) {
  const { root, sides } = view;
  find("text").lang = sides.source.tokens.lang = source;
  find("hypotheses").lang = sides.target.tokens.lang = target;
  root.querySelector(".source-title").textContent = nameOf(source);
  root.querySelector(".target-title").textContent = nameOf(target);
}

find("hypotheses").addEventListener("change", ({ target }) => choose(Number(target.value)));
