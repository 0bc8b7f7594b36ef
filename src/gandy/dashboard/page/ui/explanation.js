// What the foreman explains: why tasks wait, or how they ended.

import { h } from "../lib/dom.js";

/** An explanation without its first line: the counts, which the page shows anyway. */
export function dropCounts(lines) {
  return lines.filter((line) => line.trim() && !/^Job \d+ is .*\d+ waiting/.test(line));
}

export class Explanation {
  constructor() {
    this.node = h("ul", { class: "lines" }, h("li", { class: "soft" }, "…"));
    this.shown = null;
  }

  /** The list stays as it is if nothing is new, so that a person can select text in it. */
  update(lines) {
    const found = dropCounts(lines);
    if (this.shown === found.join("\n")) return;
    this.shown = found.join("\n");
    const items = found.map((line) => h("li", {}, line));
    this.node.replaceChildren(...(items.length ? items : [h("li", { class: "soft" }, "There is nothing to explain.")]));
  }
}
