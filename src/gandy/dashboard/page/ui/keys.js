// Keys that work everywhere, unless a person is typing into a field.

import { switchTheme } from "../lib/colours.js";
import { showKeys } from "./ask.js";

const VIEWS = ["#/", "#/jobs", "#/workers", "#/calls", "#/bus", "#/foremen"];

/** `openParent()` and `openNow()` depend on the view. */
export function listenForKeys({ openParent, openNow }) {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]")) return;
    if (event.target.matches("input, select, textarea")) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    if (act(event.key, { openParent, openNow })) event.preventDefault();
  });
}

function act(key, { openParent, openNow }) {
  if (key === "?") showKeys();
  else if (key === "/") return focusFilter();
  else if (key === "j") return moveRow(1);
  else if (key === "k") return moveRow(-1);
  else if (key === "t") switchTheme();
  else if (key === "u") openParent();
  else if (key === "n") openNow();
  else if (VIEWS[key - 1] && key.length === 1) location.hash = VIEWS[key - 1];
  else return false;
  return true;
}

function focusFilter() {
  const field = document.querySelector("#content input[type=search]");
  field?.focus();
  field?.select();
  return Boolean(field);
}

/** Rows are the links with `data-row`; Enter opens them as it opens any link. */
function moveRow(step) {
  const rows = [...document.querySelectorAll("#content a[data-row]")];
  if (!rows.length) return false;
  const place = rows.indexOf(document.activeElement);
  rows[place < 0 ? (step > 0 ? 0 : rows.length - 1) : Math.max(0, Math.min(rows.length - 1, place + step))].focus();
  return true;
}
