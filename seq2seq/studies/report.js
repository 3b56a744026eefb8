// The report of a study: charts, the choice of groups, translations.
const data = JSON.parse(find("data").textContent);
const boxes = [...document.querySelectorAll(".chart")]; // after each, its chart as JSON
const groups = [...document.querySelectorAll("#groups label")];

const config = {
  displaylogo: false,
  responsive: true,
  modeBarButtons: [["toImage", "zoom2d", "pan2d", "resetScale2d"]],
  toImageButtonOptions: { format: "svg" },
};
const isShown = (group) => groups[group].querySelector("input").checked;

function showGroups() {
  boxes.forEach((box) =>
    Plotly.restyle(box, { visible: box.data.map(({ meta }) => isShown(meta)) }));
  document.querySelectorAll(".card").forEach((card) => {
    card.hidden = !isShown(card.dataset.group);
  });
}

// Order by a number: by the first in ascending order, by all others in descending order.
function listSentences() {
  const order = find("order");
  const sign = order.selectedIndex ? -1 : 1;
  const numberOf = (index) => data.sentences[index].numbers[order.value];
  const sorted = [...data.sentences.keys()]
    .sort((one, other) => sign * (numberOf(one) - numberOf(other)));
  find("choice").replaceChildren(...sorted.map((index, rank) => {
    const { source } = data.sentences[index];
    const short = source.length > 60 ? `${source.slice(0, 60)}\u2026` : source;
    return new Option(`${rank + 1} (${numberOf(index)}): ${short}`, index);
  }));
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

const isTouched = matchMedia("(pointer: coarse)").matches; // a finger scrolls the page
for (const box of boxes) {
  const figure = JSON.parse(box.nextElementSibling.textContent);
  if (isTouched) figure.layout.dragmode = false;
  Plotly.newPlot(box, { ...figure, config });
}
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
