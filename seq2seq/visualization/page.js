// The list of sentences, whose view of attention shows the current one.
const readData = (script) => JSON.parse(script.textContent);
const texts = [...document.querySelectorAll("script.text")].map(readData);
const attention = document.querySelectorAll("script.attention");
const list = find("list");
const view = new AttentionView(document.querySelector(".attention-view"));

let current = 0; // the sentence on show

function show(index) {
  if (index < 0 || index >= texts.length) return;
  list.children[current].firstChild.removeAttribute("aria-current");
  list.children[index].firstChild.setAttribute("aria-current", "true");
  scrollList(list.children[index]);
  current = index;
  find("source-text").textContent = visible(texts[index].source);
  find("target-text").textContent = visible(texts[index].target);
  find("note").textContent = visible(texts[index].note);
  find("place").textContent = `${index + 1} of ${texts.length}`;
  find("previous").disabled = index === 0;
  find("next").disabled = index === texts.length - 1;
  view.show(readData(attention[index]));
}

// Scroll the list, not the page, and only if the entry is out of sight.
function scrollList({ offsetTop, offsetHeight }) {
  const { scrollTop, clientHeight } = list.parentElement;
  const isSeen = offsetTop >= scrollTop && offsetTop + offsetHeight <= scrollTop + clientHeight;
  if (!isSeen) list.parentElement.scrollTop = offsetTop - clientHeight / 2;
}

function press(event) {
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  const step = { p: -1, n: 1 }[event.key];
  if (step) show(current + step);
}

document.addEventListener("keydown", press);
find("previous").addEventListener("click", () => show(current - 1));
find("next").addEventListener("click", () => show(current + 1));
texts.forEach(({ source }, index) => {
  const number = element("span", `${index + 1}`, { className: "muted" });
  const content = [number, element("bdi", source || "(no text)")];
  const button = element("button", content, { type: "button", onclick: () => show(index) });
  list.append(element("li", button));
});
document.querySelector(".layout").classList.toggle("many", texts.length > 1);
list.parentElement.hidden = texts.length < 2;
if (texts.length) show(0);
else document.querySelector("main").replaceChildren("There are no sentences on this page.");
