// The page says all it has to say without this. It filters the tree, and reloads a live page.
(() => {
  "use strict";
  const live = document.getElementById("live");
  if (live) {
    live.parentElement.hidden = false;
    // Rows that were opened or closed by hand are so again when the page is loaded anew, where they are there again.
    const said = (d) => (d.querySelector(":scope > .frames") ?? d.querySelector("summary")).textContent.replace(/\d+/g, "");
    const path = (d) => d ? path(d.parentElement.closest("details")) + "\n" + said(d) : "";
    const folds = [...document.querySelectorAll("details")].map((d) => ({ d, name: d.closest("[id]").id + path(d), open: d.open }));
    const store = "contend folds";
    try {
      const byHand = JSON.parse(sessionStorage.getItem(store) ?? "{}");
      folds.forEach(({ d, name }) => { d.open = byHand[name] ?? d.open; });
      addEventListener("pagehide", () => sessionStorage.setItem(store, JSON.stringify(
        Object.fromEntries(folds.filter(({ d, open }) => d.open !== open).map(({ d, name }) => [name, d.open])))));
    } catch { /* a browser that keeps nothing */ }
    const reading = () => document.hidden || document.getElementById("filter")?.value;
    let lost = false;
    setInterval(async () => {
      if (!live.checked || reading()) return;
      try {
        if ((await fetch(location.href, { method: "HEAD" })).ok) (lost ? top : self).location.reload();
      } catch {
        lost = true; // nobody answers: what is shown stays, and what stands beside it needs to be loaded anew too
      }
    }, 1000 * Number(document.body.dataset.refresh));
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
