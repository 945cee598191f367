// Pictures can be enlarged and walked through with the arrow keys; folded parts are
// printed; tables of class "sortable" are sorted by a click on a heading.
"use strict";

const dialog = document.querySelector("dialog");

function neighbour(button, step) {
  const all = [...button.closest(".sheet").querySelectorAll("button")];
  return all[all.indexOf(button) + step];
}

function enlarge(button) {
  dialog.current = button;
  dialog.querySelector("div").replaceChildren(
    button.querySelector("img").cloneNode(),
    button.closest("figure").querySelector("dl").cloneNode(true));
  if (!dialog.open) dialog.showModal();
}

const steps = { ArrowRight: 1, ArrowLeft: -1 };

for (const sheet of document.querySelectorAll(".sheet")) {
  // One stop of the tab key for each sheet; arrow keys go on from there.
  sheet.querySelectorAll("button").forEach((button, i) => {
    button.disabled = false;
    button.tabIndex = i ? -1 : 0;
    button.addEventListener("click", () => enlarge(button));
    button.addEventListener("keydown", (event) => {
      const next = event.key in steps && neighbour(button, steps[event.key]);
      if (!next) return;
      button.tabIndex = -1;
      next.tabIndex = 0;
      next.focus();
      event.preventDefault();
    });
  });
}

if (dialog) {
  dialog.addEventListener("keydown", (event) => {
    const next = event.key in steps && neighbour(dialog.current, steps[event.key]);
    if (next) enlarge(next);
  });
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) dialog.close();
  });
}

window.addEventListener("beforeprint", () => {
  for (const folded of document.querySelectorAll("details")) folded.open = true;
});

const order = new Intl.Collator("en", { numeric: true });

function sort(table, column, up) {
  const body = table.tBodies[0];
  const key = (row) => row.cells[column].dataset.value ?? row.cells[column].textContent;
  const sign = up ? 1 : -1;
  const compare = (a, b) => {
    const x = key(a), y = key(b);
    if (!x || !y) return (x ? 0 : 1) - (y ? 0 : 1);  // empty cells last, either way
    const numbers = !isNaN(x) && !isNaN(y);
    return sign * (numbers ? x - y : order.compare(x, y));
  };
  body.append(...[...body.rows].sort(compare));
}

for (const table of document.querySelectorAll("table.sortable")) {
  const headings = [...table.tHead.rows[0].cells];
  headings.forEach((heading, column) => {
    const button = document.createElement("button");
    button.type = "button";
    button.append(...heading.childNodes);
    heading.append(button);
    button.addEventListener("click", () => {
      const up = heading.ariaSort !== "ascending";
      headings.forEach((other) => other.removeAttribute("aria-sort"));
      heading.ariaSort = up ? "ascending" : "descending";
      sort(table, column, up);
    });
  });
}
