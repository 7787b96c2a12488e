// Sorts tables, copies commands, opens the glossary, and switches light and dark. The page works without it.
"use strict";

const key = (row, column) => row.cells[column].dataset.key;

// Numbers by value, texts alphabetically; missing values come last in both directions.
function compare(a, b, direction) {
  if (a === undefined || b === undefined) return (a === undefined) - (b === undefined);
  const [x, y] = [Number(a), Number(b)];
  const order = Number.isNaN(x) || Number.isNaN(y) ? a.localeCompare(b, undefined, { numeric: true }) : x - y;
  return direction * order;
}

function sort(header) {
  const body = header.closest("table").tBodies[0];
  // First click: numbers descending, names ascending.
  const first = header.classList.contains("number") ? "descending" : "ascending";
  const second = first === "ascending" ? "descending" : "ascending";
  const way = header.ariaSort === first ? second : first;
  for (const other of header.parentElement.cells) if (other.hasAttribute("aria-sort")) other.ariaSort = "none";
  header.ariaSort = way;
  const direction = way === "ascending" ? 1 : -1;
  const column = header.cellIndex;
  const rows = [...body.rows].sort((a, b) => compare(key(a, column), key(b, column), direction));
  body.append(...rows);
}

for (const button of document.querySelectorAll("th button")) {
  button.addEventListener("click", () => sort(button.closest("th")));
}

function select(element) {
  const range = document.createRange();
  range.selectNodeContents(element);
  getSelection().removeAllRanges();
  getSelection().addRange(range);
}

for (const button of document.querySelectorAll("button.copy")) {
  const code = button.parentElement.querySelector("code");
  button.addEventListener("click", async () => {
    // If the browser refuses, the lines stay selected.
    select(code);
    try {
      await navigator.clipboard.writeText(code.textContent);
      button.textContent = "copied";
    } catch {
      button.textContent = "selected";
    }
  });
}

document.getElementById("theme").addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
});

// A link into a folded part opens it.
function openTarget() {
  const target = document.getElementById(decodeURIComponent(location.hash.slice(1)));
  const folded = target?.closest("main details:not([open])");
  if (folded) {
    folded.open = true;
    target.scrollIntoView();
  }
}
addEventListener("hashchange", openTarget);
openTarget();

// On paper nothing can be unfolded.
addEventListener("beforeprint", () => {
  for (const folded of document.querySelectorAll("main details:not([open])")) {
    folded.open = true;
    folded.dataset.printing = "";
  }
});
addEventListener("afterprint", () => {
  for (const folded of document.querySelectorAll("details[data-printing]")) {
    folded.open = false;
    delete folded.dataset.printing;
  }
});
