"use strict";
// The view of attention: two rows of tokens, the choice of a head, and a matrix of all weights.
// A place in it: {target: row}, {source: column}, both (a cell), or {} (none).
const STRONGEST = 5; // number of tokens whose weight is shown, if it is at least 1 %
const LONG = 40; // a sentence with more tokens stands beside its translation, not above it
const FULL = 1000; // a weight of 1
const WORD_START = "\u2581", END = "</s>";

const find = (id) => document.getElementById(id);
const percent = (weight) => weight > 0 && weight < FULL / 200 ? "<\u00a01\u00a0%"
  : `${Math.round((100 * weight) / FULL)}\u00a0%`;
const isSame = (one, other) => one.source === other.source && one.target === other.target;
const sides = {
  source: { tokens: find("source"), labels: find("columns"), line: find("column-line") },
  target: { tokens: find("target"), labels: find("rows"), line: find("row-line") },
};
const canvas = find("cells").querySelector("canvas");
const hint = find("readout").textContent;

let heads = []; // the mean, then each head: [row][column]
let weights = []; // the chosen one of them
let labels = {}; // of the tokens of each side
let isMirrored = false; // columns run from right to left, as the source does
let place = {};
let pinned = null; // a place that stays until the next click

function element(name, text = "", properties = {}) {
  const made = Object.assign(document.createElement(name), properties);
  made.textContent = visible(text);
  return made;
}

// Control characters show as their symbols.
function visible(text) {
  return text.replace(/[\0-\x1f\x7f]/g, (c) =>
    c === "\x7f" ? "\u2421" : String.fromCharCode(0x2400 + c.charCodeAt()));
}

// Show a sentence: the tokens of both sides and the weights of each head, in thousandths.
function showAttention({ source_tokens, target_tokens, weights: each }) {
  pinned = null;
  drawTokens("source", source_tokens);
  drawTokens("target", target_tokens);
  isMirrored = getComputedStyle(sides.source.tokens).direction === "rtl";
  find("matrix").dir = isMirrored ? "rtl" : "ltr";
  const isLong = Math.max(labels.source.length, labels.target.length) > LONG;
  document.querySelector(".texts").classList.toggle("long", isLong);
  drawHeads(each);
}

function drawTokens(side, tokens) {
  const hasWordStarts = tokens.some((token) => token.startsWith(WORD_START));
  const words = [];
  labels[side] = tokens.map((token) => token.replace(/^\u2581(?=.)/u, ""));
  const draw = (name, index, properties) => {
    const made = Object.assign(element(name), properties);
    Object.assign(made.dataset, { side, index });
    return made;
  };
  tokens.forEach((token, index) => {
    const properties = { type: "button", className: "token", tabIndex: index ? -1 : 0 };
    const button = draw("button", index, properties);
    // No bdi: the direction of all tokens together follows from their text.
    button.append(element("span", labels[side][index]), element("small"));
    if (!index || !hasWordStarts || token === END || token.startsWith(WORD_START)) {
      words.push(element("span", "", { className: "word" }));
    }
    words.at(-1).append(button);
  });
  sides[side].tokens.replaceChildren(...words);
  sides[side].labels.replaceChildren(...labels[side].map((label, index) =>
    draw("span", index, { textContent: visible(label), title: visible(label) })));
}

function drawHeads(each) {
  const mean = each[0].map((row, t) =>
    row.map((_, s) => each.reduce((sum, head) => sum + head[t][s], 0) / each.length));
  heads = [mean, ...each];
  const choices = find("heads");
  choices.hidden = each.length < 2; // the mean of one head is that head
  if (choices.querySelectorAll("input").length !== heads.length) { // else the choice stays
    choices.replaceChildren("Head", ...heads.map((_, index) => {
      const choice = { type: "radio", name: "head", value: index, checked: index === 0 };
      const label = element("label", index ? `${index}` : "mean of all");
      label.append(element("input", "", choice));
      return label;
    }));
  }
  chooseHead();
}

function chooseHead() {
  weights = heads[document.querySelector("[name=head]:checked").value];
  drawMatrix();
  paint(pinned ?? {});
}

// One pixel for each cell; the style enlarges it.
function drawMatrix() {
  if (!weights.length) return; // nothing is shown yet
  const [height, width] = [weights.length, weights[0].length];
  const pixels = new ImageData(width, height);
  const style = getComputedStyle(document.documentElement);
  const shade = style.getPropertyValue("--shade").trim().split(" ");
  weights.forEach((row, t) => row.forEach((weight, s) => {
    const column = isMirrored ? width - 1 - s : s;
    pixels.data.set([...shade, (255 * weight) / FULL], 4 * (t * width + column));
  }));
  Object.assign(canvas, { width, height });
  canvas.style.width = `calc(${width} * var(--cell))`;
  canvas.style.height = `calc(${height} * var(--cell))`;
  canvas.getContext("2d").putImageData(pixels, 0, 0);
}

// Shade the other side by its weights for a place; {} removes all shades.
function paint(newPlace) {
  place = newPlace;
  const { target: row, source: column } = place;
  const [side, other] = row === undefined ? ["source", "target"] : ["target", "source"];
  const shades = isSame(place, {}) ? []
    : side === "target" ? weights[row] : weights.map((values) => values[column]);
  const strongest = [...shades.keys()].filter((index) => shades[index] >= FULL / 100)
    .sort((a, b) => shades[b] - shades[a]).slice(0, STRONGEST);
  for (const [name, { tokens, labels: marks, line }] of Object.entries(sides)) {
    const isActive = (index) => index === place[name];
    tokens.querySelectorAll(".token").forEach((token, index) => {
      const weight = name === other ? shades[index] ?? 0 : 0;
      const isShown = name === other && strongest.includes(index);
      token.style.setProperty("--weight", weight / FULL);
      token.lastChild.textContent = isShown ? percent(weight) : "";
      token.classList.toggle("active", isActive(index));
      token.setAttribute("aria-pressed", index === pinned?.[name]);
    });
    [...marks.children].forEach((mark, index) => mark.classList.toggle("active", isActive(index)));
    line.hidden = place[name] === undefined;
    line.style.setProperty("--index", place[name] ?? 0);
  }
  tell(side, other, shades, column === undefined || row === undefined ? strongest : [column]);
}

function tell(side, other, shades, told) {
  if (!shades.length) {
    find("readout").textContent = hint;
    return;
  }
  const parts = told.flatMap((index, rank) =>
    [rank ? ", " : "", element("bdi", labels[other][index]), ` ${percent(shades[index])}`]);
  find("readout").replaceChildren(
    element("bdi", labels[side][place[side]], { className: "told" }),
    side === "target" ? " looked at " : " was looked at by ",
    ...(parts.length ? parts : ["nothing with 1 % or more"]));
}

function placeOf(event) {
  const marked = event.target.closest?.("[data-side]");
  if (marked) return { [marked.dataset.side]: Number(marked.dataset.index) };
  if (event.target !== canvas) return {};
  const cellAt = (offset, length, size) =>
    Math.max(0, Math.min(size - 1, Math.floor((offset / length) * size)));
  const column = cellAt(event.offsetX, canvas.clientWidth, canvas.width);
  return {
    target: cellAt(event.offsetY, canvas.clientHeight, canvas.height),
    source: isMirrored ? canvas.width - 1 - column : column,
  };
}

function point(newPlace) {
  if (pinned === null && !isSame(newPlace, place)) paint(newPlace);
}

function pin(event) {
  if (event.target.closest(".bar, nav, fieldset, form")) return;
  const clicked = placeOf(event);
  pinned = isSame(clicked, {}) || isSame(clicked, pinned ?? {}) ? null : clicked;
  paint(clicked);
}

function unpin() {
  pinned = null;
  paint({});
}

function pressToken(event) {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  const token = event.target.closest?.(".token");
  if (event.key === "Escape") unpin();
  else if (token && move) moveFocus(token, move);
}

function moveFocus(token, move) {
  const box = sides[token.dataset.side].tokens;
  const step = getComputedStyle(box).direction === "rtl" ? -move : move;
  const next = box.querySelectorAll(".token")[Number(token.dataset.index) + step];
  if (!next) return;
  token.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}

document.addEventListener("mousemove", (event) => point(placeOf(event)));
document.documentElement.addEventListener("mouseleave", () => point({}));
for (const { tokens } of Object.values(sides)) {
  tokens.addEventListener("focusin", (event) => point(placeOf(event)));
  tokens.addEventListener("focusout", () => point({}));
}
document.addEventListener("click", pin);
document.addEventListener("keydown", pressToken);
find("heads").addEventListener("change", chooseHead);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", drawMatrix);
