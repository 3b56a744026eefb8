// The report of a study: sorting, the choice of groups and axes, translations, maps over updates.
const data = JSON.parse(find("data").textContent);
const boxes = [...document.querySelectorAll(".chart")]; // after each, its chart as JSON
const charts = boxes.map((box) => JSON.parse(box.nextElementSibling.textContent));
const groups = [...document.querySelectorAll("#groups label")];

// Lists items in the order of a number: the first number rises, the others fall.
function listItems(order, choice, items, textOf) {
  const sign = order.selectedIndex ? -1 : 1;
  const numberOf = (index) => items[index].numbers[order.value];
  const sorted = [...items.keys()].sort((one, other) => sign * (numberOf(one) - numberOf(other)));
  choice.replaceChildren(...sorted.map((index, rank) => {
    const text = textOf(items[index]);
    const short = text.length > 60 ? `${text.slice(0, 60)}\u2026` : text;
    return new Option(`${rank + 1} (${numberOf(index)}): ${short}`, index);
  }));
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

// Charts and groups -------------------------------------------------------------------------------

const isShown = (group) => groups[group].querySelector("input").checked;

function drawCharts() {
  const isTouched = matchMedia("(pointer: coarse)").matches; // a finger scrolls the page
  charts.forEach(({ figure }, index) => {
    if (isTouched) figure.layout.dragmode = false;
    Plotly.newPlot(boxes[index], figure);
  });
}

function chooseAxis(axis) {
  charts.forEach(({ axes }, index) => {
    if (axes[axis]) Plotly.update(boxes[index], ...axes[axis]);
  });
}

function showGroups() {
  boxes.forEach((box) =>
    Plotly.restyle(box, { visible: box.data.map(({ meta }) => isShown(meta)) }));
  document.querySelectorAll(".card").forEach((card) => {
    card.hidden = !isShown(card.dataset.group);
  });
}

// Translations ------------------------------------------------------------------------------------

function listSentences() {
  listItems(find("order"), find("choice"), data.sentences, ({ source }) => source);
  drawSentence();
}

function drawSentence(steps = 0) {
  const choice = find("choice");
  choice.selectedIndex += steps;
  const { source, reference, translations } = data.sentences[choice.value];
  find("previous").disabled = choice.selectedIndex === 0;
  find("next").disabled = choice.selectedIndex === choice.length - 1;
  find("source").textContent = source;
  find("reference").textContent = reference;
  find("cards").replaceChildren();
  translations.forEach((translation) => addCard(translation, reference));
}

function addCard({ group, text, attention }, reference) {
  const card = find("card").content.firstElementChild.cloneNode(true);
  const [, mark, name] = groups[group].children;
  card.dataset.group = group;
  card.hidden = !isShown(group);
  card.querySelector("h3").append(mark.cloneNode(true), name.textContent);
  card.querySelector(".same").hidden = text !== reference;
  card.querySelector(".text").textContent = text || "(no text)";
  find("cards").append(card);
  const root = card.querySelector(".attention-view");
  if (attention.weights.length) new AttentionView(root).show(attention);
  else root.replaceWith("No attention.");
}

// Maps over updates -------------------------------------------------------------------------------

function listPairs() {
  listItems(find("map-order"), find("map-pair"), data.maps.pairs, ({ target }) => {
    const tokens = target.filter((token) => token !== "</s>");
    const hasSpaces = tokens.some((token) => token.startsWith("\u2581"));
    return tokens.join(hasSpaces ? "" : " ").replaceAll("\u2581", " ").trim();
  });
  drawMaps();
}

// Draw the two chosen runs at the update of the slider, each at its last validation so far.
function drawMaps() {
  const [pair, ...chosen] = ["pair", "one", "other"].map((id) => Number(find(`map-${id}`).value));
  const runs = chosen.map((index) => data.maps.runs[index]);
  const all = runs.flatMap(({ validations }) => validations.map((each) => each.update));
  const updates = [...new Set(all)].sort((a, b) => a - b);
  const slider = find("map-update");
  slider.max = updates.length - 1;
  const update = updates[slider.value];
  slider.setAttribute("aria-valuetext", update);
  find("map-number").textContent = update;
  const [one, other] = runs.map(({ name, validations }) => {
    const last = validations.findLast((each) => each.update <= update) ?? validations[0];
    const title = `${name}: update ${last.update}, ${last.scores}`;
    return { name, title, weights: last.maps[pair] };
  });
  const isKnown = one.weights.length && other.weights.length;
  const difference = !isKnown ? []
    : one.weights.map((row, t) => row.map((weight, s) => weight - other.weights[t][s]));
  const name = "First minus second";
  const maps = [one, other, { name, title: name, weights: difference }];
  find("maps").replaceChildren(...maps.map((map) => mapOf(data.maps.pairs[pair], map)));
  pointAtCell(null);
}

function mapOf({ source, target }, { name, title, weights }) {
  const figure = find("map").content.firstElementChild.cloneNode(true);
  const [caption, box] = figure.children, table = box.firstElementChild;
  caption.textContent = box.ariaLabel = title;
  table.dataset.name = name;
  table.tHead.rows[0].append(...source.map((token) => {
    const cell = element("th", "", { scope: "col" });
    cell.append(element("span", labelOf(token)));
    return cell;
  }));
  weights.forEach((row, t) => {
    table.tBodies[0].insertRow().append(element("th", labelOf(target[t]), { scope: "row" }),
      ...row.map((weight) => {
        const text = weight ? String(weight).replace("-", "\u2212") : "";
        const cell = element("td", text, { className: weight < 0 ? "less" : "" });
        cell.style.setProperty("--weight", Math.abs(weight) / 100);
        return cell;
      }));
  });
  if (!weights.length) box.replaceWith("This map is too large to be kept.");
  return figure;
}

// A cell is marked in all maps; the line below names its weights.
function pointAtCell(cell) {
  document.querySelectorAll(".map .active").forEach((each) => each.classList.remove("active"));
  find("map-readout").textContent = "";
  if (!cell) return;
  const { cellIndex, parentElement: { rowIndex } } = cell;
  const at = (table, row, column) => table.rows[row].cells[column];
  const tables = [...document.querySelectorAll(".map")];
  const weights = tables.map((table) => {
    const same = at(table, rowIndex, cellIndex);
    same.classList.add("active");
    return `${table.dataset.name} ${same.textContent || 0}%`;
  });
  const [source, target] = [at(tables[0], 0, cellIndex), at(tables[0], rowIndex, 0)];
  find("map-readout").textContent =
    `${target.textContent} looked at ${source.textContent}: ${weights.join("; ")}`;
}

// Start -------------------------------------------------------------------------------------------

document.querySelectorAll("thead button").forEach((button) =>
  button.addEventListener("click", () => sortBy(button.parentElement)));
drawCharts();
find("axis")?.addEventListener("change", ({ target }) => chooseAxis(target.value));
find("groups").addEventListener("change", showGroups);
document.querySelectorAll("#groups button").forEach((button) =>
  button.addEventListener("click", () => {
    groups.forEach((label) => { label.querySelector("input").checked = Boolean(button.value); });
    showGroups();
  }));
if (data.sentences.length) {
  find("order").addEventListener("change", listSentences);
  find("choice").addEventListener("change", () => drawSentence());
  find("previous").addEventListener("click", () => drawSentence(-1));
  find("next").addEventListener("click", () => drawSentence(1));
  listSentences();
}
if (data.maps) {
  const { runs } = data.maps;
  const other = runs.findIndex(({ group }) => group !== runs[0].group);
  find("map-other").value = other < 0 ? runs.length - 1 : other;
  find("map-order").addEventListener("change", listPairs);
  find("map-choice").addEventListener("input", drawMaps);
  find("maps").addEventListener("mouseover", ({ target }) => pointAtCell(target.closest("tbody td")));
  find("maps").addEventListener("mouseleave", () => pointAtCell(null));
  listPairs();
}
