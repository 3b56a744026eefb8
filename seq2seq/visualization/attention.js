"use strict";
// The view of attention: two rows of tokens, the choice of a head, and a matrix of all weights.
// A place in it: {target: row}, {source: column}, both (a cell), or {} (none).
const STRONGEST = 5; // number of tokens whose weight is shown, if it is at least 1%
const LONG = 40; // a sentence with more tokens is shown beside its translation, not above it
const FULL = 1000; // a weight of 1
const WORD_START = "\u2581", END = "</s>";

const find = (id) => document.getElementById(id);
const labelOf = (token) => token.replace(/^\u2581(?=.)/u, "");
const percent = (weight) => weight > 0 && weight < FULL / 200 ? "<1%"
  : `${Math.round((100 * weight) / FULL)}%`;
const isSame = (one, other) => one.source === other.source && one.target === other.target;

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

class AttentionView {
  static count = 0;
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
    this.name = `head-${AttentionView.count++}`;
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
    const isLong = Math.max(source_tokens.length, target_tokens.length) > LONG;
    this.root.querySelector(".texts").classList.toggle("long", isLong);
    this.drawHeads(weights);
  }

  drawTokens(side, tokens) {
    const hasWordStarts = tokens.some((token) => token.startsWith(WORD_START));
    const words = [];
    this.labels[side] = tokens.map(labelOf);
    const draw = (name, index, properties) => {
      const made = Object.assign(element(name), properties);
      Object.assign(made.dataset, { side, index });
      return made;
    };
    tokens.forEach((token, index) => {
      const properties = { type: "button", className: "token", tabIndex: index ? -1 : 0 };
      const button = draw("button", index, properties);
      // No bdi: the direction of all tokens together follows from their text.
      button.append(element("span", labelOf(token)), element("small"));
      if (!index || !hasWordStarts || token === END || token.startsWith(WORD_START)) {
        words.push(element("span", "", { className: "word" }));
      }
      words.at(-1).append(button);
    });
    this.sides[side].tokens.replaceChildren(...words);
    this.sides[side].labels.replaceChildren(...this.labels[side].map((label, index) =>
      draw("span", index, { textContent: visible(label), title: visible(label) })));
  }

  drawHeads(each) {
    const mean = each[0].map((row, t) =>
      row.map((_, s) => each.reduce((sum, head) => sum + head[t][s], 0) / each.length));
    this.heads = [mean, ...each];
    this.choices.hidden = each.length < 2; // the mean of one head is that head
    if (this.choices.querySelectorAll("input").length !== this.heads.length) { // else it stays
      this.choices.replaceChildren("Head", ...this.heads.map((_, index) => {
        const choice = { type: "radio", name: this.name, value: index, checked: index === 0 };
        const label = element("label", index ? `${index}` : "mean of all");
        label.append(element("input", "", choice));
        return label;
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
    canvas.style.width = `calc(${width} * var(--cell))`;
    canvas.style.height = `calc(${height} * var(--cell))`;
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
      const isActive = (index) => index === place[name];
      tokens.querySelectorAll(".token").forEach((token, index) => {
        const weight = name === other ? shades[index] ?? 0 : 0;
        const isShown = name === other && strongest.includes(index);
        token.style.setProperty("--weight", weight / FULL);
        token.lastChild.textContent = isShown ? percent(weight) : "";
        token.classList.toggle("active", isActive(index));
        token.setAttribute("aria-pressed", index === this.pinned?.[name]);
      });
      [...marks.children].forEach((mark, index) =>
        mark.classList.toggle("active", isActive(index)));
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

function pressToken(event) {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  const move = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  const token = event.target.closest?.(".token");
  if (event.key === "Escape") allViews().forEach((view) => view.pin({}));
  else if (token && move) moveFocus(token, move);
}

function moveFocus(token, move) {
  const box = token.closest(".tokens");
  const step = getComputedStyle(box).direction === "rtl" ? -move : move;
  const next = box.querySelectorAll(".token")[Number(token.dataset.index) + step];
  if (!next) return;
  token.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}

function pointAway() {
  allViews().forEach((view) => view.point({}));
}

document.addEventListener("mousemove", pointAt);
document.addEventListener("focusin", pointAt);
document.addEventListener("focusout", pointAway);
document.documentElement.addEventListener("mouseleave", pointAway);
document.addEventListener("click", pinPlace);
document.addEventListener("keydown", pressToken);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () =>
  allViews().forEach((view) => view.drawMatrix()));
