// Small pieces that several views use: states, progress, numbers, panels, and what to say where nothing is.

import { h, setAttribute, setStyle, setText } from "../lib/dom.js";
import { count, formatCount, formatPercent } from "../lib/format.js";
import { IN_ORDER } from "../lib/states.js";

const DRAWN = ["finished", "failed", "cancelled", "running", "assigned"]; // the rest of a bar waits

/** A state in words, with a mark in its colour. */
export class State {
  constructor() {
    this.words = document.createTextNode("");
    this.node = h("span", { class: "state" }, this.words);
  }

  update(state, words = state) {
    setAttribute(this.node, "data-state", state);
    if (this.words.data !== words) this.words.data = words;
  }
}

export function makeState(state, words = state) {
  const made = new State();
  made.update(state, words);
  return made.node;
}

/** How far a job is, by state. */
export class Progress {
  constructor() {
    this.parts = DRAWN.map((state) => h("i", { "data-state": state }));
    this.node = h(
      "div",
      { class: "progress", role: "progressbar", "aria-valuemin": 0, "aria-valuemax": 100 },
      this.parts,
    );
  }

  update(job) {
    const all = Math.max(1, job.tasks);
    DRAWN.forEach((state, index) => setStyle(this.parts[index], "--part", share(job[state], all)));
    const over = job.finished + job.failed + job.cancelled;
    setAttribute(this.node, "aria-valuenow", Math.floor((100 * over) / all));
    setAttribute(this.node, "aria-valuetext", describeProgress(job));
  }
}

/** A share as a width. What is there is seen, however little it is. */
function share(part, all) {
  return part ? `${Math.max(0.4, (100 * part) / all).toFixed(2)}%` : "0%";
}

export function describeProgress(job) {
  const words = [
    `${formatPercent(job.finished + job.failed + job.cancelled, job.tasks)} of ${count(job.tasks, "task")}`,
  ];
  for (const state of IN_ORDER) if (job[state]) words.push(`${formatCount(job[state])} ${state}`);
  return words.join(", ");
}

/** A number with its name. */
export class Stat {
  constructor(name, { href = null } = {}) {
    this.value = h("b", {}, "–");
    this.unit = h("small");
    this.about = h("span", { class: "about" });
    const content = [
      h("span", { class: "name" }, name),
      h("span", { class: "value" }, this.value, this.unit),
      this.about,
    ];
    this.node = href ? h("a", { class: "stat", href }, content) : h("div", { class: "stat" }, content);
  }

  update(value, unit = "", about = "") {
    setText(this.value, value);
    setText(this.unit, unit);
    setText(this.about, about);
  }
}

export function panel(title, attributes, ...children) {
  const { aside, ...rest } = attributes;
  const head = title === null ? null : h("header", {}, h("h2", {}, title), aside ?? null);
  return h("section", { ...rest, class: `panel ${rest.class ?? ""}`.trim() }, head, children);
}

/** What to do where there is nothing to see, with a line to type. */
export function empty(text, command = null) {
  return h("div", { class: "empty" }, h("p", {}, text), command && h("code", { class: "type" }, command));
}

/** A table with a header, in a box that scrolls on narrow screens. `columns`: `[words, class]`. */
export function table(columns, body, label) {
  const cells = columns.map(([words, kind]) => h("th", { class: kind, scope: "col" }, words));
  const made = h("table", { "aria-label": label }, h("thead", {}, h("tr", {}, cells)), body);
  return h("div", { class: "scroll", role: "region", "aria-label": label, tabindex: "0" }, made);
}

export function cell(kind, ...children) {
  return h("td", { class: kind }, ...children);
}

/** A list of names with what they are. */
export function facts(pairs) {
  return h(
    "dl",
    { class: "facts" },
    pairs
      .filter(([, value]) => value !== "" && value !== null && value !== undefined)
      .map(([name, value]) => h("div", {}, h("dt", {}, name), h("dd", {}, value))),
  );
}
