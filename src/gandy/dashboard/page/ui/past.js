// The crew as it was at a moment of the past, and a bar that says that this is what is shown.

import { getJson, isAborted } from "../lib/api.js";
import { Crew } from "../lib/crew.js";
import { h, setHidden, setText } from "../lib/dom.js";
import { formatMoment, formatSeconds } from "../lib/format.js";
import { findNearest } from "./chart.js";

/** What is known of a moment of which nothing is kept. */
// prettier-ignore
const NOTHING = {
  jobs: [], workers: [], commands: [], spans: [], calls: [], trouble: [], points: [],
  waiting: 0, assigned: 0, running: 0, unfinished: 0, calls_waiting: 0, slots: 0, used: 0,
};

export class Past {
  /** `seconds`: how far charts look back. `onChange()`: `crew` is another one. `onBack()`: back to now. */
  constructor(app, signal, { seconds, onChange, onBack }) {
    Object.assign(this, { app, signal, seconds, onChange });
    this.at = null;
    this.crew = null;
    this.words = h("b");
    this.note = h("span");
    const back = h("button", { type: "button", class: "main", click: onBack }, "Back to now");
    this.node = h("div", { class: "past", role: "status", hidden: true }, this.words, this.note, back);
  }

  /** Show a moment, or now. */
  show(at) {
    this.at = at;
    this.crew = null;
    setHidden(this.node, at === null);
    document.body.classList.toggle("is-past", at !== null);
    if (at === null) return this.onChange();
    setText(this.words, `${formatMoment(at)}, ${formatSeconds(this.app.now - at)} ago`);
    setText(this.note, "…");
    this.load(at);
  }

  async load(at) {
    try {
      const [whole, before] = await Promise.all([
        getJson(`history/at?at=${at}`, this.signal),
        getJson(`history?from=${at - this.seconds}&to=${at}`, this.signal),
      ]);
      if (this.at === at) this.receive(whole, before);
    } catch (error) {
      if (!isAborted(error) && this.at === at) this.receive({ ...NOTHING, at, problem: error.message }, { points: [] });
    }
  }

  receive(whole, { points, period = 1 }) {
    const last = points[findNearest(points, this.at)] ?? [];
    const [, finished = 0, failed = 0, calls = 0] = last;
    this.crew = new Crew();
    this.crew.replace({ ...NOTHING, ...whole, points, rates: { finished, failed, calls } });
    this.gap = Math.max(5, 2.5 * period);
    setText(this.note, whole.problem || "Attempts and trouble are not kept.");
    this.onChange();
  }

  close() {
    document.body.classList.remove("is-past");
  }
}
