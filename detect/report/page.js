// The page says all it has to say without this. It filters the tree, and reloads a live page.
(() => {
  "use strict";
  const live = document.getElementById("live");
  if (live) {
    live.closest("p").hidden = false;
    const reading = () => document.hidden || document.getElementById("filter")?.value;
    setInterval(() => { if (live.checked && !reading()) location.reload(); }, 1000 * Number(document.body.dataset.refresh));
  }
  const tree = document.getElementById("tree");
  if (!tree) return;
  const box = document.getElementById("filter"), matches = document.getElementById("matches");
  const nodes = [...tree.querySelectorAll("details")].map((d) => ({
    item: d.parentElement, details: d, open: d.open,
    calls: d.querySelector(":scope > .frames").textContent.toLowerCase(),
  }));
  const filter = () => {
    const wanted = box.value.trim().toLowerCase();
    let n = 0;
    for (const { item, details, open } of nodes) {
      item.hidden = wanted !== "";
      details.open = wanted === "" && open;
    }
    if (wanted !== "") {
      for (const { item, details, calls } of nodes) {
        if (!calls.includes(wanted)) continue;
        n++;
        item.querySelectorAll("li").forEach((li) => { li.hidden = false; });
        for (let at = item; at !== tree; at = at.parentElement) {
          at.hidden = false;
          if (at.tagName === "DETAILS" && at !== details) at.open = true;
        }
      }
    }
    matches.textContent = wanted === "" ? "" : n === 1 ? "1 row has it" : n + " rows have it";
  };
  box.addEventListener("input", filter);
  document.getElementById("unfold").addEventListener("click", () => nodes.forEach(({ details }) => { details.open = true; }));
  document.querySelector(".filter").hidden = false;
})();
