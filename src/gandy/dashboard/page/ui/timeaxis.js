// The time axis: the last day or week, from the foreman's history. Drag over it to see how it was.

import { getJson, poll } from "../lib/api.js";
import { fade, onTheme, readColour } from "../lib/colours.js";
import { h, setAttribute, setHidden, setText } from "../lib/dom.js";
import { formatClock, formatCount, formatDay, formatMoment, formatRate } from "../lib/format.js";
import { findNearest, listMarks } from "./chart.js";
import { Surface } from "./frames.js";

const RANGES = { hour: 3600, day: 86400, week: 7 * 86400 };
const SHORTEST = 300; // seconds of the axis
const PERIOD = 15; // seconds between two looks at the history
const PAUSE = 150; // milliseconds between two moments that are asked for while a person drags
const NEAR = 0.004; // of the axis: so near to its end means now

export class TimeAxis {
  constructor(app, signal, onPick) {
    Object.assign(this, { app, signal, onPick });
    this.points = [];
    this.range = "day";
    this.at = null;
    this.pointer = null;
    this.readout = h("output", { class: "readout" });
    this.buttons = Object.keys(RANGES).map((range) =>
      h("button", { type: "button", click: () => this.choose(range) }, range),
    );
    this.plot = h("div", {
      class: "plot",
      role: "slider",
      tabindex: "0",
      "aria-label": "Time",
      "aria-orientation": "horizontal",
      pointerdown: (event) => this.grab(event),
      pointermove: (event) => this.move(event),
      pointerleave: () => this.point(null),
      keydown: (event) => this.onKey(event),
    });
    this.nothing = h(
      "p",
      { class: "soft over", hidden: true },
      "The history begins now: drag here later to see how it was.",
    );
    this.node = h(
      "section",
      { class: "axis", "aria-label": "History" },
      h("header", {}, h("h2", {}, "History"), this.readout, h("div", { class: "tabs" }, this.buttons)),
      this.plot,
      this.nothing,
    );
    this.surface = new Surface(this.plot, (context, width, height) => this.paint(context, width, height));
    this.endTheme = onTheme(() => this.surface.redraw());
    this.choose(this.range, true);
    poll(signal, PERIOD, () => this.load());
  }

  close() {
    clearTimeout(this.timer);
    this.surface.close();
    this.endTheme();
  }

  get from() {
    return this.to - this.span;
  }

  /** The seconds of the axis. A history that has just begun is shown larger, until it fills the range. */
  get span() {
    return Math.max(SHORTEST, Math.min(RANGES[this.range], this.to - (this.points[0]?.[0] ?? 0)));
  }

  get to() {
    return this.app.now;
  }

  choose(range, isFirst = false) {
    this.range = range in RANGES ? range : "day";
    this.buttons.forEach((button) => setAttribute(button, "aria-pressed", button.textContent === this.range));
    if (!isFirst) this.load().catch(() => {}); // the next look tries again
  }

  async load() {
    const { points } = await getJson(
      `history?from=${Math.floor(this.to - RANGES[this.range])}&to=${Math.ceil(this.to)}`,
      this.signal,
    );
    this.points = points;
    setHidden(this.nothing, points.length > 1);
    this.surface.redraw();
  }

  show(at, range) {
    this.at = at;
    if (range && range !== this.range) this.choose(range);
    this.describe();
    this.surface.redraw();
  }

  update() {
    this.describe();
    if (!this.painted || this.to - this.painted > this.span / 2000) this.surface.redraw();
  }

  describe() {
    setAttribute(this.plot, "aria-valuemin", Math.floor(this.from));
    setAttribute(this.plot, "aria-valuemax", Math.ceil(this.to));
    setAttribute(this.plot, "aria-valuenow", Math.round(this.at ?? this.to));
    setAttribute(this.plot, "aria-valuetext", this.at ? formatMoment(this.at) : "now");
  }

  // What a person does

  grab(event) {
    if (event.button) return;
    this.plot.setPointerCapture(event.pointerId);
    this.pick(this.locate(event.offsetX));
  }

  move(event) {
    this.point(event.offsetX);
    if (event.buttons & 1 && this.plot.hasPointerCapture(event.pointerId)) this.pick(this.locate(event.offsetX));
  }

  point(x) {
    this.pointer = x;
    this.surface.redraw();
  }

  onKey(event) {
    const steps = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -12, PageUp: 12 };
    const step = this.span / 288;
    if (event.key === "End" || event.key === "Escape") this.pick(null);
    else if (event.key === "Home") this.pick(this.from);
    else if (event.key in steps) this.pick(Math.max(this.from, (this.at ?? this.to) + steps[event.key] * step));
    else return;
    event.preventDefault();
  }

  locate(x) {
    return this.from + (Math.max(0, Math.min(this.surface.width, x)) / this.surface.width) * this.span;
  }

  /** Show a moment, or now, and tell of it when the pointer rests. */
  pick(at) {
    const moment = at === null || at > this.to - this.span * NEAR ? null : Math.round(at);
    if (moment === this.at) return;
    this.show(moment);
    if (this.timer) return;
    this.timer = setTimeout(() => {
      this.timer = null;
      this.onPick(this.at);
    }, PAUSE);
  }

  // What is drawn

  paint(context, width, height) {
    this.painted = this.to;
    const { from, to } = this;
    const foot = height - 15;
    const x = (at) => ((at - from) / (to - from)) * width;
    this.paintMarks(context, width, height, foot, x);
    this.paintArea(context, foot, x, 5, (point) => point[4], "running", 0.14);
    this.paintArea(context, foot, x, 1, (point) => point[1], "finished", 0.28);
    this.paintMoment(context, width, foot, x);
    const at = this.pointer === null ? this.at : this.locate(this.pointer);
    const point = at === null ? undefined : this.points[findNearest(this.points, at)];
    const numbers = point
      ? ` · ${formatRate(point[1])} tasks/s, ${formatCount(point[4])} of ${formatCount(point[5])} slots`
      : "";
    setText(this.readout, at === null ? "Drag to see how it was" : `${formatMoment(at)}${numbers}`);
  }

  paintMarks(context, width, height, foot, x) {
    context.textAlign = "center";
    context.fillStyle = readColour("line");
    context.fillRect(0, foot, width, 1);
    for (const at of listMarks(this.from, this.to, Math.max(3, width / 90))) {
      context.fillStyle = readColour("line");
      context.fillRect(Math.round(x(at)), 0, 1, foot);
      context.fillStyle = readColour("soft");
      const words = this.range === "week" ? formatDay(at) : formatClock(at, false);
      if (x(at) > 24 && x(at) < width - 24) context.fillText(words, x(at), height - 3);
    }
  }

  /** An area, each on a scale of its own: this is for finding a moment, not for reading numbers. */
  paintArea(context, foot, x, topColumn, read, colour, opacity) {
    const top = Math.max(1e-9, ...this.points.map((point) => point[topColumn]));
    const gap = Math.max(35, (3 * this.span) / 500);
    context.fillStyle = fade(colour, opacity);
    context.strokeStyle = readColour(colour);
    context.lineWidth = 1;
    let run = [];
    const flush = () => {
      if (run.length) this.paintRun(context, run, foot);
      run = [];
    };
    let before = 0;
    for (const point of this.points) {
      if (point[0] - before > gap) flush();
      run.push([x(point[0]), foot - (read(point) / top) * (foot - 4)]);
      before = point[0];
    }
    flush();
  }

  paintRun(context, run, foot) {
    context.beginPath();
    for (const place of run) context.lineTo(...place);
    context.stroke();
    context.lineTo(run.at(-1)[0], foot);
    context.lineTo(run[0][0], foot);
    context.fill();
  }

  paintMoment(context, width, foot, x) {
    const at = this.at ?? this.to;
    const place = Math.max(1, Math.min(width - 1, Math.round(x(at))));
    context.fillStyle = readColour(this.at ? "warn" : "accent");
    context.fillRect(place - 1, 0, 2, foot);
    context.beginPath();
    context.arc(place, foot, 4, 0, 7);
    context.fill();
    if (this.pointer === null) return;
    context.fillStyle = fade("ink", 0.35);
    context.fillRect(Math.round(this.pointer), 0, 1, foot);
  }
}
