// The picture of all tasks of a job: a pixel of image data for each cell, which the browser enlarges.
// Only rows that changed are drawn again, once in a frame; nothing is laid out.

import { onTheme, readColour, readPalette } from "../lib/colours.js";
import { h, setStyle } from "../lib/dom.js";
import { STATES } from "../lib/states.js";
import { draw } from "./frames.js";
import { findCell, findRows, findTask, moveTask, planGrid } from "./grid.js";

const LOUPE_CELLS = 15; // across
const LOUPE_SIZE = 8; // pixels of a cell in it
const CARD_WIDTH = 330; // CSS pixels of what is said about a task; views.css has the same
const CARD_HEIGHT = 110;
const CARD_GAP = 12;

/** `onPoint(task)` for the task under the pointer or the cursor, 0 for none; `onOpen(task)` for a click or Enter. */
export class Cells {
  constructor(states, { onPoint, onOpen, readout }) {
    this.states = states;
    this.onPoint = onPoint;
    this.onOpen = onOpen;
    this.grid = null;
    this.dirty = null;
    this.task = 0;
    this.frames = 0; // painted, for measurements
    this.canvas = h("canvas", { "aria-hidden": "true" });
    this.context = this.canvas.getContext("2d", { alpha: false });
    this.cursor = h("i", { class: "cursor", hidden: true });
    this.loupe = h("canvas", {
      class: "loupe",
      "aria-hidden": "true",
      width: LOUPE_CELLS * LOUPE_SIZE,
      height: LOUPE_CELLS * LOUPE_SIZE,
    });
    this.card = h("div", { class: "card", hidden: true }, this.loupe, readout);
    this.node = h(
      "div",
      {
        class: "cells",
        tabindex: "0",
        role: "application",
        "aria-roledescription": "picture of the tasks",
        "aria-label": "A cell for each task. Arrow keys move, Enter opens.",
        "aria-describedby": readout.id,
        pointermove: (event) => this.point(this.find(event)),
        pointerleave: () => this.point(0),
        click: (event) => this.open(this.find(event)),
        keydown: (event) => this.onKey(event),
      },
      this.canvas,
      this.cursor,
      this.card,
    );
    this.paint = () => this.paintRows();
    this.sizes = new ResizeObserver(([entry]) => this.resize(entry.contentRect.width));
    this.sizes.observe(this.node);
    this.endTheme = onTheme(() => this.repaint());
  }

  close() {
    this.sizes.disconnect();
    this.endTheme();
  }

  resize(width) {
    this.width = Math.floor(width);
    this.plan();
  }

  /** The number of tasks or the room is another one. */
  plan() {
    if (!this.width || !this.states.length) return;
    this.grid = planGrid(this.states.length, this.width, devicePixelRatio);
    const { columns, rows, cell, hasGaps } = this.grid;
    this.canvas.width = columns;
    this.canvas.height = rows;
    setStyle(this.node, "--cell", `${cell}px`);
    setStyle(this.node, "--columns", columns);
    setStyle(this.node, "--rows", rows);
    this.node.classList.toggle("gaps", hasGaps);
    this.image = this.context.createImageData(columns, rows);
    this.pixels = new Uint32Array(this.image.data.buffer);
    this.repaint();
  }

  repaint() {
    this.palette = readPalette();
    this.blank = readColour("panel");
    this.mark(0, (this.grid?.rows ?? 0) - 1);
  }

  /** Runs of tasks have changed. */
  change(runs) {
    if (this.grid === null || this.grid.tasks !== this.states.length) return this.plan();
    const rows = findRows(this.grid, runs);
    if (rows) this.mark(...rows);
  }

  mark(first, last) {
    if (last < first) return;
    this.dirty = this.dirty ? [Math.min(first, this.dirty[0]), Math.max(last, this.dirty[1])] : [first, last];
    draw(this.paint);
  }

  paintRows() {
    if (this.dirty === null) return;
    const [first, last] = this.dirty;
    const { columns, group } = this.grid;
    const { bytes } = this.states;
    const end = Math.min((last + 1) * columns, Math.ceil(bytes.length / group));
    for (let cell = first * columns; cell < end; cell += 1) {
      this.pixels[cell] = this.palette[group === 1 ? bytes[cell] : this.states.findHeaviest(cell * group, group)];
    }
    this.context.putImageData(this.image, 0, 0, 0, first, columns, last - first + 1);
    this.paintBlank();
    this.dirty = null;
    this.frames += 1;
    if (this.task) this.paintLoupe();
  }

  /** The end of the last row has no tasks. */
  paintBlank() {
    const { columns, rows, group } = this.grid;
    const used = Math.ceil(this.states.length / group) - (rows - 1) * columns;
    this.context.fillStyle = this.blank;
    this.context.fillRect(used, rows - 1, columns - used, 1);
  }

  find(event) {
    const { left, top } = this.canvas.getBoundingClientRect();
    return this.grid ? findTask(this.grid, event.clientX - left, event.clientY - top) : 0;
  }

  point(task) {
    if (task === this.task || this.grid === null) return;
    this.task = task;
    this.cursor.hidden = this.card.hidden = !task;
    if (task) this.place(findCell(this.grid, task));
    draw(() => this.paintLoupe());
    this.onPoint(task);
  }

  /** Put the cursor on the cell, and the card near it. */
  place({ column, row }) {
    const { cell, rows } = this.grid;
    const x = column * cell;
    const y = row * cell;
    this.cursor.style.transform = `translate(${x}px, ${y}px)`;
    const left = Math.max(0, Math.min(this.width - CARD_WIDTH, x - CARD_WIDTH / 2));
    const isAbove = y > CARD_HEIGHT && y > (rows * cell) / 2;
    const top = isAbove ? `calc(${y - CARD_GAP}px - 100%)` : `${y + cell + CARD_GAP}px`;
    this.card.style.transform = `translate(${left}px, ${top})`;
  }

  open(task) {
    if (task) this.onOpen(task);
  }

  onKey(event) {
    if (this.grid === null || event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Enter") return this.open(this.task);
    const task = this.task ? moveTask(this.grid, this.task, event.key) : moveTask(this.grid, 1, event.key) && 1;
    if (task === null) return;
    event.preventDefault();
    this.point(task);
  }

  /** The surroundings of a task, enlarged, so that single pixels can be seen. */
  paintLoupe() {
    const context = this.loupe.getContext("2d");
    context.fillStyle = readColour("sunk");
    context.fillRect(0, 0, this.loupe.width, this.loupe.height);
    if (!this.task || this.grid === null) return;
    const { columns, rows, group, tasks } = this.grid;
    const { column, row } = findCell(this.grid, this.task);
    const half = LOUPE_CELLS >> 1;
    for (let y = Math.max(0, row - half); y <= Math.min(rows - 1, row + half); y += 1) {
      for (let x = Math.max(0, column - half); x <= Math.min(columns - 1, column + half); x += 1) {
        const begin = (y * columns + x) * group;
        if (begin >= tasks) break;
        context.fillStyle = readColour(STATES[this.states.findHeaviest(begin, group)]);
        context.fillRect(
          (x - column + half) * LOUPE_SIZE,
          (y - row + half) * LOUPE_SIZE,
          LOUPE_SIZE - 1,
          LOUPE_SIZE - 1,
        );
      }
    }
    context.strokeStyle = readColour("ink");
    context.lineWidth = 2;
    context.strokeRect(half * LOUPE_SIZE - 1, half * LOUPE_SIZE - 1, LOUPE_SIZE + 1, LOUPE_SIZE + 1);
  }
}
