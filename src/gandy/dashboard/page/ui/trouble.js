// What needs a person's attention: a list, and words for screen readers when it changes.

import { h, Rows, setAttribute, setHidden, setText } from "../lib/dom.js";
import { count } from "../lib/format.js";
import { formatRoute, linkJob } from "../lib/router.js";

const SHOWN = 6;
const PAGES = { foreman: "foremen", store: "foremen", worker: "workers", clock: "bus" };

/** Where a person finds out more. */
export function linkTrouble({ kind, about }) {
  if (kind === "job" && about) return linkJob(about);
  return PAGES[kind] ? formatRoute({ view: PAGES[kind] }) : null;
}

export class TroubleList {
  constructor() {
    this.list = h("ul");
    this.more = h("p", { class: "soft more", hidden: true });
    this.calm = h("p", { class: "calm" }, "Nothing needs your attention.");
    this.node = h("section", { class: "trouble", "aria-label": "Trouble" }, this.calm, this.list, this.more);
    this.rows = new Rows(this.list, findKey, makeRow);
  }

  update(trouble) {
    setHidden(this.calm, trouble.length > 0);
    const found = dropDoubles(trouble);
    this.rows.update(found.slice(0, SHOWN));
    const left = found.length - SHOWN;
    setHidden(this.more, left <= 0);
    setText(this.more, `and ${count(Math.max(left, 0), "more", "more")}`);
  }
}

/** The same trouble has the same key, whatever its numbers are now. */
export function findKey({ kind, about, text }) {
  return `${kind} ${about} ${text.replace(/\d[\d,.]*/g, "#")}`;
}

function dropDoubles(trouble) {
  return [...new Map(trouble.map((each) => [findKey(each), each])).values()];
}

function makeRow(trouble) {
  const href = linkTrouble(trouble);
  const words = href ? h("a", { href }) : h("span");
  const severity = h("span", { class: "quiet" });
  const node = h("li", {}, severity, words);
  return {
    node,
    update(now) {
      setAttribute(node, "class", now.severity);
      setText(severity, now.severity === "bad" ? "Problem:" : "Warning:");
      setText(words, now.text);
    },
  };
}

/** Tells screen readers of trouble that is new, and in the title that there is some. */
export class TroubleNews {
  constructor() {
    this.node = document.getElementById("news");
    this.known = new Set();
  }

  update(trouble) {
    const keys = new Set(trouble.map(findKey));
    const fresh = trouble.find((each) => !this.known.has(findKey(each)));
    if (fresh) this.node.textContent = fresh.text;
    else if (this.known.size && !keys.size) this.node.textContent = "Nothing needs your attention any more.";
    this.known = keys;
  }
}
