// Draws attempts and calls as bars in lanes over time: a lane is a slot of a worker. Bars of calls are thinner.

import { colourCommand, colourJob, fade, onTheme, readColour } from "../lib/colours.js";
import { h } from "../lib/dom.js";
import { formatClock } from "../lib/format.js";
import { listMarks } from "./chart.js";
import { Surface } from "./frames.js";

const LARGEST_LANE = 13; // CSS pixels
const SMALLEST_LANE = 2;
const MOST = 190; // CSS pixels of all lanes of a worker
const CALLS = 12; // of the strip that shows calls

/** The height of a lane if there are so many. */
export function planLane(lanes) {
  return Math.max(SMALLEST_LANE, Math.min(LARGEST_LANE, Math.floor(MOST / Math.max(1, lanes))));
}

/** The span in a lane at a time, as a person points at it: the last one that is near enough. */
export function findSpan(spans, lane, at, reach) {
  let found = null;
  for (const span of spans) {
    if (span.lane === lane && span.began <= at + reach && (span.ended ?? Infinity) >= at - reach) found = span;
  }
  return found;
}

/** Lanes of one worker. `onPoint(span)`: null for none; `onOpen(span)`: it was clicked. */
export class Lanes {
  constructor({ colourSpan = colourByJob, onPoint, onOpen, label }) {
    Object.assign(this, { colourSpan, onPoint, onOpen });
    this.spans = [];
    this.calls = [];
    this.lanes = 0;
    this.node = h("div", {
      class: "lanes",
      role: "img",
      "aria-label": label,
      pointermove: (event) => this.onPoint(this.find(event)),
      pointerleave: () => this.onPoint(null),
      click: (event) => {
        const span = this.find(event);
        if (span) this.onOpen(span);
      },
    });
    this.surface = new Surface(this.node, (context, width, height) => this.paint(context, width, height));
    this.endTheme = onTheme(() => this.surface.redraw());
  }

  close() {
    this.surface.close();
    this.endTheme();
  }

  update({ spans, lanes, from, to, calls = [], maxCalls = 0 }) {
    Object.assign(this, { spans, from, to, calls, maxCalls });
    if (lanes !== this.lanes || Boolean(maxCalls) !== this.hasCalls) {
      this.lanes = lanes;
      this.hasCalls = Boolean(maxCalls);
      this.node.style.height = `${planLane(lanes) * Math.max(1, lanes) + (this.hasCalls ? CALLS + 2 : 0)}px`;
    }
    this.surface.redraw();
  }

  find(event) {
    if (!this.to || !this.surface.width) return null;
    const perPixel = (this.to - this.from) / this.surface.width;
    const lane = Math.floor(event.offsetY / planLane(this.lanes));
    return findSpan(this.spans, lane, this.from + event.offsetX * perPixel, perPixel * 2);
  }

  paint(context, width) {
    const height = planLane(this.lanes);
    const gap = height > 4 ? 1 : 0;
    const scale = width / (this.to - this.from);
    context.fillStyle = readColour("sunk");
    for (let lane = 0; lane < Math.max(1, this.lanes); lane += 1)
      context.fillRect(0, lane * height, width, height - gap);
    for (const span of this.spans) {
      const begin = Math.max(0, (span.began - this.from) * scale);
      const end = Math.min(width, ((span.ended ?? this.to) - this.from) * scale);
      if (end < 0 || begin > width) continue;
      const size = Math.max(1, end - begin - (end - begin > 3 ? 0.75 : 0));
      context.fillStyle = span.state === "failed" ? readColour("failed") : this.colourSpan(span);
      const inset = span.command !== undefined && height > 4 ? Math.round(height / 5) : 0;
      context.fillRect(begin, Math.min(span.lane, this.lanes - 1) * height + inset, size, height - gap - 2 * inset);
    }
    if (this.hasCalls) this.paintCalls(context, scale, height * Math.max(1, this.lanes) + 2, width);
  }

  /** Most calls are too short for bars: the strip shows how many were in progress. */
  paintCalls(context, scale, top, width) {
    context.fillStyle = readColour("sunk");
    context.fillRect(0, top, width, CALLS);
    context.fillStyle = fade("cancelled", 0.85);
    this.calls.forEach(([at, many], index) => {
      const until = this.calls[index + 1]?.[0] ?? this.to;
      const size = (many / this.maxCalls) * CALLS;
      context.fillRect((at - this.from) * scale, top + CALLS - size, Math.max(1, (until - at) * scale), size);
    });
  }
}

function colourByJob(span) {
  return span.command === undefined ? colourJob(span.job) : colourCommand(span.command);
}

/** The times under lanes. */
export class TimeScale {
  constructor() {
    this.node = h("div", { class: "timescale" });
    this.surface = new Surface(this.node, (context, width) => {
      context.fillStyle = readColour("soft");
      context.textAlign = "center";
      for (const at of listMarks(this.from, this.to, Math.max(2, width / 120))) {
        const x = ((at - this.from) / (this.to - this.from)) * width;
        if (x < 28 || x > width - 28) continue;
        context.fillRect(Math.round(x), 0, 1, 3);
        context.fillText(formatClock(at), x, 14);
      }
    });
  }

  update(from, to) {
    Object.assign(this, { from, to });
    this.surface.redraw();
  }

  close() {
    this.surface.close();
  }
}
