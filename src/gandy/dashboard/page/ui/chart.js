// Draws numbers over time: lines, areas, and what they were under the pointer.

import { fade, onTheme, readColour } from "../lib/colours.js";
import { h, setText } from "../lib/dom.js";
import { formatClock } from "../lib/format.js";
import { Surface } from "./frames.js";

const GAP = 5; // seconds without a point that break a line
const ROOM = 1.06; // above the highest value
const GUTTER = 30; // CSS pixels, for the numbers at the axis: at least

/** The least round number that is not less: 1, 1.5, 2, 3, 4, ... */
export function roundUp(value) {
  if (value <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(value));
  return [1, 1.5, 2, 3, 4, 5, 6, 8, 10].find((step) => step * power >= value * 0.999999) * power;
}

/** Moments of the clock to mark between two times, about `most` of them, `least` seconds apart. */
export function listMarks(from, to, most, least = 1) {
  const steps = [1, 2, 5, 10, 30, 60, 120, 300, 600, 1800, 3600, 7200, 10800, 21600, 43200, 86400];
  const step = steps.find((seconds) => seconds >= least && (to - from) / seconds <= most) ?? 86400;
  const offset = new Date(from * 1000).getTimezoneOffset() * 60;
  const marks = [];
  for (let at = Math.ceil((from - offset) / step) * step + offset; at < to; at += step) marks.push(at);
  return marks;
}

/** The index of the point nearest to a time; -1 if there is none. */
export function findNearest(points, at) {
  let low = 0;
  let high = points.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (points[middle][0] < at) low = middle + 1;
    else high = middle;
  }
  if (low > 0 && (low === points.length || at - points[low - 1][0] < points[low][0] - at)) low -= 1;
  return low < points.length ? low : -1;
}

/**
 * `series`: from the back to the front, `{column, colour, fill, isLine}`; `describe(point)`: words for a point;
 * `getTop(points)`: the least height of the axis; `format`: of the numbers at the axis.
 */
export class Chart {
  constructor({ title, series, describe, format, getTop = () => 0, gap = GAP }) {
    Object.assign(this, { series, describe, format, getTop, gap });
    this.points = [];
    this.pointer = null;
    this.readout = h("output", { class: "readout" });
    this.plot = h("div", { class: "plot", role: "img", "aria-label": title });
    this.node = h("figure", { class: "chart" }, h("figcaption", {}, h("h2", {}, title), this.readout), this.plot);
    this.title = title;
    this.surface = new Surface(this.plot, (context, width, height) => this.paint(context, width, height));
    this.plot.addEventListener("pointermove", (event) => this.point(event.offsetX));
    this.plot.addEventListener("pointerleave", () => this.point(null));
    this.endTheme = onTheme(() => this.surface.redraw());
  }

  update(points, from, to) {
    Object.assign(this, { points, from, to });
    if (this.pointer === null) setText(this.readout, points.length ? this.describe(points.at(-1)) : "");
    this.surface.redraw();
  }

  point(x) {
    this.pointer = x;
    this.surface.redraw();
  }

  close() {
    this.surface.close();
    this.endTheme();
  }

  findTop() {
    let top = this.getTop(this.points);
    for (const point of this.points) {
      if (point[0] < this.from) continue;
      for (const { column } of this.series) top = Math.max(top, point[column] ?? 0);
    }
    return roundUp(top * ROOM);
  }

  paint(context, width, height) {
    const top = this.findTop();
    const foot = height - 16;
    this.gutter = Math.ceil(
      Math.max(GUTTER, ...[top, top / 2].map((value) => context.measureText(this.format(value)).width + 8)),
    );
    const x = (at) => this.gutter + ((at - this.from) / (this.to - this.from)) * (width - this.gutter);
    const y = (value) => foot - (value / top) * (foot - 6);
    this.paintGrid(context, width, foot, top, x, y);
    for (const each of this.series) this.paintSeries(context, each, x, y, foot);
    this.paintPointer(context, width, foot, x, y);
  }

  paintGrid(context, width, foot, top, x, y) {
    context.fillStyle = readColour("soft");
    context.strokeStyle = readColour("line");
    context.lineWidth = 1;
    context.textAlign = "right";
    for (const value of [0, top / 2, top]) {
      const level = Math.round(y(value)) + 0.5;
      context.beginPath();
      context.moveTo(this.gutter, level);
      context.lineTo(width, level);
      context.stroke();
      context.fillText(this.format(value), this.gutter - 7, Math.max(9, level + 4));
    }
    context.textAlign = "center";
    for (const at of listMarks(this.from, this.to, Math.max(3, width / 100), 60)) {
      if (x(at) > this.gutter + 18 && x(at) < width - 18) context.fillText(formatClock(at, false), x(at), foot + 14);
    }
    context.textAlign = "left";
  }

  paintSeries(context, { column, colour, fill }, x, y, foot) {
    for (const run of this.listRuns(column)) {
      context.beginPath();
      run.forEach((point, index) => {
        const place = [x(point[0]), y(point[column])];
        if (index) context.lineTo(...place);
        else context.moveTo(...place);
      });
      context.strokeStyle = readColour(colour);
      context.lineWidth = 1.5;
      context.lineJoin = "round";
      context.stroke();
      if (!fill) continue;
      context.lineTo(x(run.at(-1)[0]), foot);
      context.lineTo(x(run[0][0]), foot);
      context.fillStyle = fade(colour, fill);
      context.fill();
    }
  }

  /** Points without a gap between them. */
  *listRuns(column) {
    let run = [];
    for (const point of this.points) {
      const isMissing = point[column] === null || point[column] === undefined;
      if (run.length && (isMissing || point[0] - run.at(-1)[0] > this.gap)) {
        yield run;
        run = [];
      }
      if (!isMissing && point[0] >= this.from - this.gap) run.push(point);
    }
    if (run.length) yield run;
  }

  paintPointer(context, width, foot, x, y) {
    if (this.pointer === null) return;
    const at = this.from + ((this.pointer - this.gutter) / (width - this.gutter)) * (this.to - this.from);
    const point = this.points[findNearest(this.points, at)];
    if (point === undefined) return;
    setText(this.readout, `${formatClock(point[0])} · ${this.describe(point)}`);
    context.strokeStyle = readColour("soft");
    context.beginPath();
    context.moveTo(Math.round(x(point[0])) + 0.5, 0);
    context.lineTo(Math.round(x(point[0])) + 0.5, foot);
    context.stroke();
    for (const { column, colour } of this.series) {
      if (point[column] === null) continue;
      context.fillStyle = readColour(colour);
      context.beginPath();
      context.arc(x(point[0]), y(point[column]), 3, 0, 7);
      context.fill();
    }
  }
}

/** A line without axes, for a cell of a table. */
export class Sparkline {
  constructor(column, colour) {
    this.points = [];
    this.node = h("div", { class: "spark" });
    this.surface = new Surface(this.node, (context, width, height) => {
      const values = this.points.map((point) => point[column] ?? 0);
      const top = Math.max(...values, 1e-9);
      context.beginPath();
      values.forEach((value, index) => {
        context.lineTo(
          width - (values.length - 1 - index) * (width / 120),
          height - 1.5 - (value / top) * (height - 3),
        );
      });
      context.strokeStyle = readColour(colour);
      context.lineWidth = 1.25;
      context.stroke();
    });
  }

  update(points) {
    this.points = points.slice(-121);
    this.surface.redraw();
  }

  close() {
    this.surface.close();
  }
}
