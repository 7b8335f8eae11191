// Filter findings and queries. Without JavaScript, the page shows all of them.
const form = document.querySelector(".filters");
const cards = [...document.querySelectorAll("[data-verdicts]")];
const shown = form.querySelector("output");

function has(values, wanted) {
  return !wanted || values.split(" ").includes(wanted);
}

function filter() {
  const { level, verdict, text } = form.elements;
  const words = text.value.toLowerCase().split(/\s+/);
  for (const card of cards) {
    const fits = has(card.dataset.levels, level.value) && has(card.dataset.verdicts, verdict.value);
    card.hidden = !fits || !words.every((word) => card.textContent.toLowerCase().includes(word));
  }
  const findings = cards.filter((card) => card.matches(".finding:not(.accepted)"));
  shown.value = `${findings.filter((card) => !card.hidden).length} of ${findings.length}`;
}

form.hidden = false;
form.addEventListener("input", filter);
form.addEventListener("reset", () => setTimeout(filter));
form.addEventListener("submit", (event) => event.preventDefault());
// Reset the filters, so that a link to a query finds its model.
addEventListener("hashchange", () => {
  form.reset();
  document.getElementById(decodeURIComponent(location.hash.slice(1)))?.setAttribute("open", "");
});
filter();
