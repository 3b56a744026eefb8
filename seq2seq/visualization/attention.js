"use strict";
// The view of attention: two rows of tokens, the choice of a head, and a matrix of all weights.
// A place in it: {target: row}, {source: column}, both (a cell), or {} (none).
const STRONGEST = 5; // number of tokens whose weight is shown, if it is at least 1%
const FULL = 1000; // a weight of 1
const WORD_START = "\u2581", END = "</s>";

const find = (id) => document.getElementById(id);
const labelOf = (token) => token.replace(/^\u2581(?=.)/u, "");
const percent = (weight) => weight > 0 && weight < FULL / 200 ? "<1%"
  : `${Math.round((100 * weight) / FULL)}%`;
const isSame = (one, other) => one.source === other.source && one.target === other.target;

// Make an element with texts and other elements in it.
function element(name, content = [], { data, ...properties } = {}) {
  const made = Object.assign(document.createElement(name), properties);
  Object.assign(made.dataset, data);
  made.append(...[content].flat().map((each) => (each instanceof Node ? each : visible(each))));
  return made;
}

// Control characters show as their symbols.
function visible(text) {
  return text.replace(/[\0-\x1f\x7f]/g, (c) =>
    c === "\x7f" ? "\u2421" : String.fromCharCode(0x2400 + c.charCodeAt()));
}

class AttentionView {
  heads = []; // the mean, then each head: [row][column]
  weights = []; // the chosen one of them
  labels = { source: [], target: [] };
  isMirrored = false; // columns run from right to left, as the source does
  place = {};
  pinned = null; // a place that stays until the next click

  // `root` is an element of attention.html.
  constructor(root) {
    const part = (selector) => root.querySelector(selector);
    root.view = this;
    this.root = root;
    this.choices = part(".heads");
    this.canvas = part("canvas");
    this.readout = part(".readout");
    this.hint = this.readout.textContent;
    this.sides = {
      source: { tokens: part(".source"), labels: part(".columns"), line: part(".column") },
      target: { tokens: part(".target"), labels: part(".rows"), line: part(".row") },
    };
    this.choices.addEventListener("change", () => this.chooseHead());
  }

  // Show a sentence: the tokens of both sides and the weights of each head, in thousandths.
  show({ source_tokens, target_tokens, weights }) {
    this.pinned = null;
    this.drawTokens("source", source_tokens);
    this.drawTokens("target", target_tokens);
    this.isMirrored = getComputedStyle(this.sides.source.tokens).direction === "rtl";
    this.root.querySelector(".matrix").dir = this.isMirrored ? "rtl" : "ltr";
    this.drawHeads(weights);
  }

  drawTokens(side, tokens) {
    const hasWordStarts = tokens.some((token) => token.startsWith(WORD_START)), words = [];
    this.labels[side] = tokens.map(labelOf);
    tokens.forEach((token, index) => {
      if (!index || !hasWordStarts || token === END || token.startsWith(WORD_START)) {
        words.push(element("span", [], { className: "word" }));
      }
      // No bdi: the direction of all tokens together follows from their text.
      const content = [element("span", labelOf(token)), element("small")];
      words.at(-1).append(element("button", content, {
        type: "button", className: "token", tabIndex: index ? -1 : 0, data: { side, index } }));
    });
    this.sides[side].tokens.replaceChildren(...words);
    this.sides[side].labels.replaceChildren(...this.labels[side].map((label, index) =>
      element("span", label, { title: visible(label), data: { side, index } })));
  }

  drawHeads(each) {
    const mean = each[0].map((row, t) =>
      row.map((_, s) => each.reduce((sum, head) => sum + head[t][s], 0) / each.length));
    this.heads = [mean, ...each];
    this.choices.hidden = each.length < 2; // the mean of one head is that head
    if (this.choices.querySelectorAll("input").length !== this.heads.length) { // else it stays
      const name = `head-${allViews().indexOf(this)}`;
      this.choices.replaceChildren("Head", ...this.heads.map((_, index) => {
        const choice = { type: "radio", name, value: index, checked: index === 0 };
        return element("label", [index ? `${index}` : "mean of all", element("input", [], choice)]);
      }));
    }
    this.chooseHead();
  }

  chooseHead() {
    this.weights = this.heads[this.choices.querySelector(":checked").value];
    this.drawMatrix();
    this.paint(this.pinned ?? {});
  }

  // One pixel for each cell; the style enlarges it.
  drawMatrix() {
    const { weights, canvas } = this;
    if (!weights.length) return; // nothing is shown yet
    const [height, width] = [weights.length, weights[0].length];
    const pixels = new ImageData(width, height);
    const style = getComputedStyle(document.documentElement);
    const shade = style.getPropertyValue("--shade").trim().split(" ");
    weights.forEach((row, t) => row.forEach((weight, s) => {
      const column = this.isMirrored ? width - 1 - s : s;
      pixels.data.set([...shade, (255 * weight) / FULL], 4 * (t * width + column));
    }));
    Object.assign(canvas, { width, height });
    canvas.getContext("2d").putImageData(pixels, 0, 0);
  }

  // Shade the other side by its weights for a place; {} removes all shades.
  paint(place) {
    this.place = place;
    const { target: row, source: column } = place;
    const [side, other] = row === undefined ? ["source", "target"] : ["target", "source"];
    const shades = isSame(place, {}) ? []
      : side === "target" ? this.weights[row] : this.weights.map((values) => values[column]);
    const strongest = [...shades.keys()].filter((index) => shades[index] >= FULL / 100)
      .sort((a, b) => shades[b] - shades[a]).slice(0, STRONGEST);
    for (const [name, { tokens, labels: marks, line }] of Object.entries(this.sides)) {
      tokens.querySelectorAll(".token").forEach((token, index) => {
        const weight = name === other ? shades[index] ?? 0 : 0;
        const isShown = name === other && strongest.includes(index);
        token.style.setProperty("--weight", weight / FULL);
        token.lastChild.textContent = isShown ? percent(weight) : "";
        for (const each of [token, marks.children[index]]) {
          each.classList.toggle("active", index === place[name]);
        }
        token.setAttribute("aria-pressed", index === this.pinned?.[name]);
      });
      line.hidden = place[name] === undefined;
      line.style.setProperty("--index", place[name] ?? 0);
    }
    this.tell(side, other, shades, column === undefined || row === undefined ? strongest : [column]);
  }

  tell(side, other, shades, told) {
    if (!shades.length) {
      this.readout.textContent = this.hint;
      return;
    }
    const parts = told.flatMap((index, rank) => [rank ? ", " : "",
      element("bdi", this.labels[other][index]), ` ${percent(shades[index])}`]);
    this.readout.replaceChildren(
      element("bdi", this.labels[side][this.place[side]], { className: "told" }),
      side === "target" ? " looked at " : " was looked at by ",
      ...(parts.length ? parts : ["nothing with 1% or more"]));
  }

  placeOf(event) {
    const marked = event.target.closest("[data-side]");
    if (marked) return { [marked.dataset.side]: Number(marked.dataset.index) };
    const { canvas } = this;
    if (event.target !== canvas) return {};
    const cellAt = (offset, length, size) =>
      Math.max(0, Math.min(size - 1, Math.floor((offset / length) * size)));
    const column = cellAt(event.offsetX, canvas.clientWidth, canvas.width);
    return {
      target: cellAt(event.offsetY, canvas.clientHeight, canvas.height),
      source: this.isMirrored ? canvas.width - 1 - column : column,
    };
  }

  point(place) {
    if (this.pinned === null && !isSame(place, this.place)) this.paint(place);
  }

  pin(place) {
    this.pinned = isSame(place, {}) || isSame(place, this.pinned ?? {}) ? null : place;
    this.paint(place);
  }
}

const allViews = () => [...document.querySelectorAll(".attention-view")].map((root) => root.view);
const viewOf = (event) => event.target.closest?.(".attention-view")?.view;

// A source token is lit in every view of the same source.
function pointAt(event) {
  const own = viewOf(event), place = own?.placeOf(event) ?? {};
  const isOfSource = place.target === undefined;
  for (const view of allViews()) {
    const isShared = isOfSource && String(view.labels.source) === String(own?.labels.source);
    view.point(view === own || isShared ? place : {});
  }
}

function pinPlace(event) {
  if (event.target.closest(".bar, nav, fieldset, form, summary")) return;
  for (const view of allViews()) view.pin(view === viewOf(event) ? view.placeOf(event) : {});
}

function pressKey(event) {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  if (event.key === "Escape") allViews().forEach((view) => view.pin({}));
  const token = event.target.closest?.(".token");
  const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  if (!token || !move) return;
  const box = token.closest(".tokens"), isMirrored = getComputedStyle(box).direction === "rtl";
  const place = Number(token.dataset.index) + (isMirrored ? -move : move);
  const next = box.querySelectorAll(".token")[place];
  if (!next) return;
  token.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}

document.addEventListener("mousemove", pointAt);
document.addEventListener("focusin", pointAt);
document.addEventListener("focusout", () => pointAt({ target: document }));
document.documentElement.addEventListener("mouseleave", pointAt);
document.addEventListener("click", pinPlace);
document.addEventListener("keydown", pressKey);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () =>
  allViews().forEach((view) => view.drawMatrix()));
