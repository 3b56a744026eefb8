"use strict";
const WORD_START = "\u2581", END = "</s>";
const DASHES = ["solid", "dash", "dot"]; // for more groups than colours
// Plotly's names of the markers, and their shapes for the list of groups. Shapes tell groups apart
// where colours do not; with ten colours, 110 groups differ in colour or shape.
const SYMBOLS = [
  ["circle", "circle(46%)"],
  ["square", "inset(8%)"],
  ["diamond", "polygon(50% 0, 100% 50%, 50% 100%, 0 50%)"],
  ["cross", "polygon(33% 0, 67% 0, 67% 33%, 100% 33%, 100% 67%, 67% 67%, 67% 100%, 33% 100%, "
    + "33% 67%, 0 67%, 0 33%, 33% 33%)"],
  ["x", "polygon(22% 0, 50% 28%, 78% 0, 100% 22%, 72% 50%, 100% 78%, 78% 100%, 50% 72%, "
    + "22% 100%, 0 78%, 28% 50%, 0 22%)"],
  ["triangle-up", "polygon(50% 0, 100% 92%, 0 92%)"],
  ["triangle-down", "polygon(50% 100%, 100% 8%, 0 8%)"],
  ["triangle-left", "polygon(0 50%, 92% 0, 92% 100%)"],
  ["triangle-right", "polygon(100% 50%, 8% 0, 8% 100%)"],
  ["star", "polygon(50% 0, 62% 36%, 100% 38%, 70% 60%, 81% 97%, 50% 75%, 19% 97%, 30% 60%, "
    + "0 38%, 38% 36%)"],
  ["hourglass", "polygon(0 0, 100% 0, 50% 50%, 100% 100%, 0 100%, 50% 50%)"],
];
const STRONGEST = 4; // tokens that the line below a translation names

const find = (id) => document.getElementById(id);
const data = JSON.parse(find("data").textContent);
const boxes = [...document.querySelectorAll(".chart")];
const hasCharts = typeof Plotly !== "undefined";
const hidden = new Set(); // groups that are not shown
let current = 0; // the sentence on show

function element(name, text = "", properties = {}) {
  const made = Object.assign(document.createElement(name), properties);
  made.textContent = text;
  return made;
}

const styleOf = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

function colorOf(group) {
  const colors = styleOf("--colors").split(/\s+/);
  return colors[group % colors.length];
}

function dashOf(group) {
  const count = styleOf("--colors").split(/\s+/).length;
  return DASHES[Math.floor(group / count) % DASHES.length];
}

// Tables ------------------------------------------------------------------------------------------

function sortBy(head) {
  const table = head.closest("table");
  const column = head.cellIndex;
  const isNumeric = head.classList.contains("number");
  const before = head.getAttribute("aria-sort");
  const first = isNumeric ? "descending" : "ascending";
  const order = before === null ? first : before === "ascending" ? "descending" : "ascending";
  table.querySelectorAll("thead th").forEach((each) => each.removeAttribute("aria-sort"));
  head.setAttribute("aria-sort", order);
  const sign = order === "ascending" ? 1 : -1;
  const valueOf = ({ cells }) => {
    const cell = cells[column];
    if (!isNumeric) return cell.textContent;
    return cell.dataset.value === undefined ? null : Number(cell.dataset.value);
  };
  const compare = (one, other) => {
    const [a, b] = [valueOf(one), valueOf(other)];
    if (a === null || b === null) return (a === null) - (b === null); // no value comes last
    return sign * (isNumeric ? a - b : a.localeCompare(b, undefined, { numeric: true }));
  };
  const body = table.tBodies[0];
  body.append(...[...body.rows].sort(compare));
}

// Charts ------------------------------------------------------------------------------------------

// Plotly reads some HTML in names.
const plain = (text) => text.replaceAll("&", "&amp;").replaceAll("<", "&lt;");
const alpha = (color, share) => `${color}${Math.round(255 * share).toString(16).padStart(2, "0")}`;

// One box for all groups would name one position for values of several.
function hasCommonX(chart) {
  const axes = [...document.querySelectorAll("[name=axis]")];
  return chart.kind === "bins" || (chart.kind === "lines" && !axes.findIndex((axis) => axis.checked));
}

function band(series, x, color) {
  const known = x.map((_, index) => index).filter((index) => series.high[index] !== null);
  return {
    x: [...known, ...[...known].reverse()].map((index) => x[index]),
    y: [...known.map((index) => series.high[index]),
      ...[...known].reverse().map((index) => series.low[index])],
    fill: "toself", fillcolor: alpha(color, 0.18), line: { width: 0 }, mode: "lines",
    hoverinfo: "skip", type: "scatter",
  };
}

function tracesOf(chart) {
  const axis = document.querySelector("[name=axis]:checked")?.value;
  return chart.series.filter(({ group }) => !hidden.has(group)).flatMap((series) => {
    const color = colorOf(series.group);
    const x = series.x[axis] ?? Object.values(series.x)[0];
    const trace = {
      x, y: series.y, name: plain(data.groups[series.group]), type: "scatter",
      mode: { lines: "lines+markers", bins: "lines+markers", points: "markers" }[chart.kind],
      line: { color, dash: dashOf(series.group), width: 2 },
      marker: { color, size: chart.kind === "points" ? 9 : 6,
        symbol: SYMBOLS[series.group % SYMBOLS.length][0] },
      text: series.hints.map(plain),
      hovertemplate: `%{y:.4~g}${series.hints.length ? " (%{text})" : ""}`,
    };
    if (!hasCommonX(chart)) {
      const place = "%{xaxis.title.text} %{x:.4~g}, %{yaxis.title.text} %{y:.4~g}";
      trace.hovertemplate = chart.kind === "points" ? `%{text}<br>${place}<extra></extra>`
        : `%{fullData.name}<br>${place}${series.hints.length ? " (%{text})" : ""}<extra></extra>`;
    }
    if (chart.kind === "bins" && series.high.length) {
      const spread = (ends, sign) => ends.map((end, index) =>
        end === null ? 0 : sign * (end - series.y[index]));
      trace.error_y = { type: "data", symmetric: false, array: spread(series.high, 1),
        arrayminus: spread(series.low, -1), color, thickness: 1 };
    }
    return chart.kind === "lines" && series.high.length ? [band(series, x, color), trace] : [trace];
  });
}

function layoutOf(chart) {
  const chosen = document.querySelector("[name=axis]:checked")?.parentElement.textContent;
  const axis = (text) => ({ title: { text, standoff: 8 }, gridcolor: styleOf("--line"),
    zeroline: false, automargin: true });
  const x = axis(chart.x_label || chosen);
  if (chart.kind === "bins") x.type = "category";
  return {
    xaxis: x, yaxis: axis(chart.y_label), showlegend: false, margin: { t: 30, r: 12, b: 48, l: 52 },
    modebar: { bgcolor: "rgba(0,0,0,0)", color: styleOf("--muted"), activecolor: styleOf("--ink") },
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: styleOf("--ink"), family: "system-ui, sans-serif", size: 13 },
    hovermode: hasCommonX(chart) ? "x unified" : "closest",
    dragmode: matchMedia("(pointer: coarse)").matches ? false : "zoom", // a finger scrolls the page
    hoverlabel: { bgcolor: styleOf("--panel"), bordercolor: styleOf("--line"),
      font: { color: styleOf("--ink") } },
  };
}

function drawCharts() {
  if (!hasCharts) return;
  const options = { displaylogo: false, responsive: true,
    modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
    toImageButtonOptions: { format: "svg" } };
  boxes.forEach((box, index) => {
    const chart = data.charts[index];
    Plotly.react(box, tracesOf(chart), layoutOf(chart), options);
  });
}

// Translations ------------------------------------------------------------------------------------

function tokensOf(side, labels) {
  const box = element("div", "", { className: "tokens", dir: "auto", lang: "" });
  const hasWordStarts = labels.some((label) => label.startsWith(WORD_START));
  labels.forEach((label, index) => {
    const isFirst = !index || !hasWordStarts || label === END || label.startsWith(WORD_START);
    if (isFirst) box.append(element("span", "", { className: "word" }));
    const token = element("button", label.replace(/^\u2581(?=.)/u, ""), { type: "button" });
    token.className = "token";
    Object.assign(token.dataset, { side, index });
    token.tabIndex = index ? -1 : 0;
    box.lastChild.append(token);
  });
  return box;
}

function cardOf(translation) {
  const { group, text, source_tokens, target_tokens, weights } = translation;
  const card = element("article", "", { className: "card" });
  const title = element("h3");
  title.append(swatch(group), data.groups[group]);
  const header = element("header");
  header.append(title);
  card.append(header, element("p", text || "(no text)", { dir: "auto", lang: "" }));
  if (text === data.sentences[current].reference) {
    header.append(element("span", "same as the reference", { className: "same" }));
  }
  card.translation = translation;
  if (!weights.length) {
    card.append(element("p", "No attention.", { className: "muted" }));
    return card;
  }
  if (weights.length > 1) header.append(headChoice(weights.length, group));
  card.append(element("h4", "Target tokens"), tokensOf("target", target_tokens));
  card.append(element("h4", "Source tokens"), tokensOf("source", source_tokens));
  card.append(element("p", "", { className: "readout", ariaLive: "polite" }));
  return card;
}

function headChoice(count, group) {
  const select = element("select", "", { ariaLabel: `Head of ${data.groups[group]}` });
  select.append(element("option", "mean of all heads", { value: "mean" }));
  for (let head = 0; head < count; head += 1) {
    select.append(element("option", `head ${head + 1}`, { value: head }));
  }
  return select;
}

// [target][source], in percent
function weightsOf(card) {
  const { weights } = card.translation;
  const chosen = card.querySelector("select")?.value ?? "mean";
  if (chosen !== "mean") return weights[chosen];
  return weights[0].map((row, t) => row.map((_, s) =>
    weights.reduce((sum, head) => sum + head[t][s], 0) / weights.length));
}

// A source token is lit in every card that has the same source tokens.
function point(token) {
  const card = token?.closest(".card");
  const place = token && { side: token.dataset.side, index: Number(token.dataset.index) };
  document.querySelectorAll(".card").forEach((each) => {
    if (!each.translation.weights.length) return;
    const isSame = place?.side === "source" && String(each.translation.source_tokens)
      === String(card.translation.source_tokens);
    paint(each, each === card || isSame ? place : null);
  });
}

function paint(card, place) {
  const weights = place ? weightsOf(card) : [];
  const other = place?.side === "target" ? "source" : "target";
  const shades = !place ? [] : place.side === "target" ? weights[place.index]
    : weights.map((row) => row[place.index]);
  card.querySelectorAll(".token").forEach((token) => {
    const { side, index } = token.dataset;
    const weight = place && side === other ? shades[index] : 0;
    token.style.setProperty("--weight", weight / 100);
    token.classList.toggle("active", place?.side === side && place.index === Number(index));
  });
  card.querySelector(".readout").textContent = place ? tell(card, place, other, shades) : "";
}

function tell(card, { side, index }, other, shades) {
  const labelOf = (of, at) => card.translation[`${of}_tokens`][at].replace(/^\u2581(?=.)/u, "");
  const strongest = [...shades.keys()].filter((at) => shades[at] >= 1)
    .sort((a, b) => shades[b] - shades[a]).slice(0, STRONGEST);
  const parts = strongest.map((at) => `${labelOf(other, at)} ${Math.round(shades[at])}\u00a0%`);
  const verb = side === "target" ? "looked at" : "was looked at by";
  return `${labelOf(side, index)} ${verb} ${parts.join(", ") || "nothing with 1 % or more"}`;
}

function drawSentence(index) {
  current = Math.max(0, Math.min(data.sentences.length - 1, index));
  const { source, reference, translations } = data.sentences[current];
  find("choice").value = current;
  find("previous").disabled = current === 0;
  find("next").disabled = current === data.sentences.length - 1;
  const texts = element("div");
  for (const [label, text] of [["Source", source], ["Reference", reference]]) {
    const line = element("p");
    line.append(element("strong", `${label}: `), element("bdi", text, { lang: "" }));
    texts.append(line);
  }
  const cards = element("div", "", { className: "cards" });
  cards.append(...translations.filter(({ group }) => !hidden.has(group)).map(cardOf));
  find("sentence").replaceChildren(texts, cards);
}

function listSentences() {
  const bar = element("div", "", { className: "bar" });
  const order = element("select", "", { id: "order", ariaLabel: "Order of the sentences" });
  Object.keys(data.sentences[0].numbers).forEach((name) => order.append(element("option", name)));
  const choice = element("select", "", { id: "choice", ariaLabel: "Sentence" });
  order.addEventListener("change", () => sortSentences(order, choice));
  choice.addEventListener("change", () => drawSentence(Number(choice.value)));
  const step = (id, text, move) => element("button", text, { id, type: "button",
    onclick: () => drawSentence(current + move) });
  bar.append(order, step("previous", "Previous", -1), step("next", "Next", 1), choice);
  find("sentences").append(bar, element("div", "", { id: "sentence" }));
  const cards = find("sentence");
  cards.addEventListener("mouseover", (event) => point(event.target.closest(".token")));
  cards.addEventListener("mouseleave", () => point(null));
  cards.addEventListener("focusin", (event) => point(event.target.closest(".token")));
  cards.addEventListener("focusout", () => point(null));
  cards.addEventListener("keydown", moveFocus);
  sortSentences(order, choice);
}

// The first number rises, the others fall.
function sortSentences(order, choice) {
  const sign = order.selectedIndex ? -1 : 1;
  const numberOf = ({ numbers }) => numbers[order.value];
  data.sentences.sort((one, other) => sign * (numberOf(one) - numberOf(other)));
  choice.replaceChildren(...data.sentences.map((sentence, index) => {
    const { source } = sentence;
    const short = source.length > 60 ? `${source.slice(0, 60)}\u2026` : source;
    const text = `${index + 1} (${numberOf(sentence)}): ${short}`;
    return element("option", text, { value: index });
  }));
  drawSentence(0);
}

function moveFocus(event) {
  const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
  const token = event.target.closest(".token");
  if (!token || !step) return;
  const box = token.closest(".tokens");
  const sign = getComputedStyle(box).direction === "rtl" ? -1 : 1;
  const next = box.querySelectorAll(".token")[Number(token.dataset.index) + sign * step];
  if (!next) return;
  token.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}

// Maps over updates -------------------------------------------------------------------------------

function listMaps() {
  const { pairs, runs } = data.maps;
  const bar = element("div", "", { className: "bar" });
  const choose = (id, name, texts, value = 0) => {
    const label = element("label", `${name} `);
    const select = element("select", "", { id });
    texts.forEach((text, index) => select.append(element("option", text, { value: index })));
    select.value = value;
    label.append(select);
    bar.append(label);
  };
  const texts = pairs.map(({ target }) => target.filter((label) => label !== END).join("")
    .replaceAll(WORD_START, " ").trim());
  choose("map-pair", "Reference", texts);
  const names = runs.map(({ name }) => name);
  const other = runs.findIndex(({ group }) => group !== runs[0].group);
  choose("map-one", "First run", names);
  choose("map-other", "Second run", names, other < 0 ? names.length - 1 : other);
  const slider = element("input", "", { id: "map-update", type: "range", min: 0 });
  const label = element("label", "Update ");
  label.append(element("output", "", { id: "map-number" }), slider);
  bar.append(label);
  const maps = element("div", "", { className: "maps" });
  find("maps").append(bar, maps, element("p", "", { id: "map-readout", className: "readout",
    ariaLive: "polite" }));
  bar.addEventListener("input", drawMaps);
  maps.addEventListener("mouseover", (event) => pointAtCell(event.target.closest("td")));
  maps.addEventListener("mouseleave", () => pointAtCell(null));
  drawMaps();
  slider.value = slider.max;
  drawMaps();
}

// The two chosen runs at the update of the slider, each at its last validation so far.
function chosenMaps() {
  const [pair, ...chosen] = ["pair", "one", "other"].map((id) => Number(find(`map-${id}`).value));
  const runs = chosen.map((index) => data.maps.runs[index]);
  const updates = [...new Set(runs.flatMap((run) => run.updates))].sort((a, b) => a - b);
  const slider = find("map-update");
  slider.max = updates.length - 1;
  const update = updates[slider.value];
  slider.setAttribute("aria-valuetext", update);
  find("map-number").textContent = update;
  const found = runs.map((run) => {
    const at = Math.max(0, run.updates.filter((each) => each <= update).length - 1);
    return { title: `${run.name}: update ${run.updates[at]}, ${run.scores[at]}`,
      weights: run.maps[at][pair] };
  });
  const [one, other] = found.map(({ weights }) => weights);
  const isKnown = one.length && other.length;
  found.push({ title: "First minus second",
    weights: isKnown ? one.map((row, t) => row.map((weight, s) => weight - other[t][s])) : [] });
  return { pair: data.maps.pairs[pair], found };
}

function drawMaps() {
  const { pair, found } = chosenMaps();
  document.querySelector(".maps").replaceChildren(...found.map((map) => mapOf(pair, map)));
  pointAtCell(null);
}

function mapOf({ source, target }, { title, weights }) {
  const figure = element("figure");
  figure.append(element("figcaption", title));
  if (!weights.length) {
    figure.append(element("p", "This map is too large to be kept.", { className: "muted" }));
    return figure;
  }
  const table = element("table", "", { className: "map" });
  const bare = (label) => label.replace(/^\u2581(?=.)/u, "");
  const head = table.createTHead().insertRow();
  head.append(element("td"), ...source.map((label) => {
    const cell = element("th", "", { scope: "col" });
    cell.append(element("span", bare(label)));
    return cell;
  }));
  const body = table.createTBody();
  weights.forEach((row, t) => {
    const line = body.insertRow();
    line.append(element("th", bare(target[t]), { scope: "row" }));
    row.forEach((weight, s) => {
      const cell = element("td", weight ? String(weight).replace("-", "\u2212") : "");
      cell.classList.toggle("less", weight < 0);
      cell.style.setProperty("--weight", Math.abs(weight) / 100);
      Object.assign(cell.dataset, { t, s });
      line.append(cell);
    });
  });
  const box = element("div", "", { className: "scroll", tabIndex: 0, role: "group",
    ariaLabel: title });
  box.append(table);
  figure.append(box);
  return figure;
}

// A cell is marked in all maps; the line below names its weights.
function pointAtCell(cell) {
  const { t, s } = cell?.dataset ?? {};
  document.querySelectorAll(".map tbody td").forEach((each) =>
    each.classList.toggle("active", each.dataset.t === t && each.dataset.s === s));
  if (t === undefined) {
    find("map-readout").textContent = "";
    return;
  }
  const { pair, found } = chosenMaps();
  const weights = found.filter(({ weights: each }) => each.length)
    .map(({ title, weights: each }) => `${title.split(":")[0]} ${each[t][s]}\u00a0%`);
  find("map-readout").textContent =
    `${pair.target[t]} looked at ${pair.source[s]}: ${weights.join("; ")}`.replaceAll(WORD_START, "");
}

// Groups ------------------------------------------------------------------------------------------

function swatch(group) {
  const made = element("span", "", { className: "swatch" });
  made.dataset.group = group;
  made.style.setProperty("--color", colorOf(group));
  made.style.setProperty("--shape", SYMBOLS[group % SYMBOLS.length][1]);
  return made;
}

function listGroups() {
  data.groups.forEach((name, group) => {
    const label = element("label");
    const box = element("input", "", { type: "checkbox", checked: true });
    box.addEventListener("change", showGroups);
    label.append(box, swatch(group), name);
    find("groups").append(label);
  });
  for (const [text, checked] of [["All", true], ["None", false]]) {
    find("groups").append(element("button", text, { type: "button", onclick: () => {
      groupBoxes().forEach((box) => { box.checked = checked; });
      showGroups();
    } }));
  }
  find("groups").hidden = data.groups.length < 2;
}

const groupBoxes = () => [...find("groups").querySelectorAll("input")];

function showGroups() {
  hidden.clear();
  groupBoxes().forEach((box, group) => { if (!box.checked) hidden.add(group); });
  drawCharts();
  if (data.sentences.length) drawSentence(current);
}

document.querySelectorAll("thead button").forEach((button) =>
  button.addEventListener("click", () => sortBy(button.parentElement)));
find("axis")?.addEventListener("change", drawCharts);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  document.querySelectorAll(".swatch").forEach((made) =>
    made.style.setProperty("--color", colorOf(Number(made.dataset.group))));
  drawCharts();
});
listGroups();
if (!hasCharts && boxes.length) {
  document.querySelectorAll(".charts, #axis").forEach((each) => { each.hidden = true; });
  find("no-charts").hidden = false;
}
drawCharts();
if (data.sentences.length) listSentences();
if (data.maps) listMaps();
