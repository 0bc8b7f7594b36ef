// Draws a histogram whose bars have a lower and an upper bound each, with marks at the percentiles.

import { onTheme, readColour } from "../lib/colours.js";
import { h, setText } from "../lib/dom.js";
import { count } from "../lib/format.js";
import { Surface } from "./frames.js";

/** Where a value lies among bars of the same width: 2.5 is in the middle of the third. */
export function locate(bars, value) {
  const index = bars.findIndex(([, end]) => value < end);
  if (index < 0) return bars.length;
  const [begin, end] = bars[index];
  return index + Math.max(0, (value - begin) / Math.max(1e-9, end - begin));
}

const WORDS_ROOM = 46; // CSS pixels

export class Histogram {
  constructor(title, format) {
    this.title = title;
    this.format = format;
    this.bars = [];
    this.marks = [];
    this.pointer = null;
    this.summary = "";
    this.readout = h("output", { class: "readout" });
    this.plot = h("div", { class: "plot", role: "img", "aria-label": title });
    this.node = h("figure", { class: "chart" }, h("figcaption", {}, h("h2", {}, title), this.readout), this.plot);
    this.surface = new Surface(this.plot, (context, width, height) => this.paint(context, width, height));
    this.plot.addEventListener("pointermove", (event) => this.point(event.offsetX));
    this.plot.addEventListener("pointerleave", () => this.point(null));
    this.endTheme = onTheme(() => this.surface.redraw());
  }

  /** `marks`: `[words, value]`, such as the median. `rest`: what to say where there are no bars. */
  update(bars, marks, rest) {
    this.bars = bars;
    this.marks = marks.filter(([, value]) => value !== null && value !== undefined);
    this.summary = bars.length
      ? this.marks.map(([words, value]) => `${words} ${this.format(value)}`).join(" · ")
      : rest;
    this.plot.setAttribute("aria-label", `${this.title}: ${this.summary}`);
    this.point(this.pointer);
  }

  point(x) {
    this.pointer = x;
    const bar = x === null ? null : this.bars[Math.floor(x / this.step)];
    setText(this.readout, bar ? this.describe(bar) : this.summary);
    this.surface.redraw();
  }

  close() {
    this.surface.close();
    this.endTheme();
  }

  paint(context, width, height) {
    const bars = this.bars;
    const foot = height - 16;
    const top = Math.max(1, ...bars.map(([, , many]) => many));
    const step = (this.step = Math.min(28, width / Math.max(1, bars.length)));
    const chosen = this.pointer === null ? -1 : Math.floor(this.pointer / step);
    context.fillStyle = readColour("line");
    context.fillRect(0, foot, width, 1);
    bars.forEach(([, , many], index) => {
      const size = many ? Math.max(2, (many / top) * (foot - 18)) : 0;
      context.fillStyle = readColour(index === chosen ? "ink" : "running");
      context.fillRect(index * step, foot - size, Math.max(1, step - (step > 3 ? 1 : 0)), size);
    });
    this.paintMarks(context, foot, step, width);
    this.paintBounds(context, height, step);
  }

  describe([begin, end, many]) {
    return `${this.format(begin)} to ${this.format(end)}: ${count(many, "attempt")}`;
  }

  paintMarks(context, foot, step, width) {
    let before = -Infinity; // where the last words are
    for (const [words, value] of this.marks.slice(0, 2)) {
      const x = Math.min(width - 1, Math.round(locate(this.bars, value) * step)) + 0.5;
      context.strokeStyle = context.fillStyle = readColour("soft");
      context.setLineDash([2, 3]);
      context.beginPath();
      context.moveTo(x, 12);
      context.lineTo(x, foot);
      context.stroke();
      context.setLineDash([]);
      context.textAlign = x > width - 40 ? "right" : x < 20 ? "left" : "center";
      if (x - before > WORDS_ROOM) context.fillText(words, x, 9);
      before = x;
    }
    context.textAlign = "left";
  }

  paintBounds(context, height, step) {
    if (!this.bars.length) return;
    context.fillStyle = readColour("soft");
    context.fillText(this.format(this.bars[0][0]), 0, height - 3);
    const end = Math.max(this.bars.length * step, 90);
    context.textAlign = "right";
    context.fillText(this.format(this.bars.at(-1)[1]), end, height - 3);
    context.textAlign = "left";
  }
}
