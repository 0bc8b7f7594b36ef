// The picture of a job's tasks with its legend, its live stream, and what is known of the task under the pointer.

import { getJson, isAborted } from "../lib/api.js";
import { h, setText } from "../lib/dom.js";
import { describeEnding, formatBytes, formatCount, formatSeconds } from "../lib/format.js";
import { Live } from "../lib/live.js";
import { linkTask } from "../lib/router.js";
import { IN_ORDER, STATES, TaskStates, unpack } from "../lib/states.js";
import { Cells } from "./cells.js";

const HINT = "Point at a task to see how it is, click to open it.";
const PATIENCE = 120; // milliseconds that a pointer rests before the task's row is asked for

export class TaskPicture {
  constructor(app, job) {
    Object.assign(this, { app, job });
    this.states = new TaskStates();
    this.title = h("b");
    this.details = h("span");
    this.readout = h("div", { class: "task", id: "task-readout", "aria-live": "polite" }, this.title, this.details);
    this.cells = new Cells(this.states, {
      onPoint: (task) => this.point(task),
      onOpen: (task) => {
        location.hash = linkTask(job, task);
      },
      readout: this.readout,
    });
    this.legend = IN_ORDER.map((state) => this.makeLegend(state));
    this.hint = h("p", { class: "soft hint" }, HINT);
    this.node = h(
      "div",
      { class: "picture" },
      h(
        "div",
        { class: "legend", role: "group", "aria-label": "States" },
        this.legend.map(({ node }) => node),
      ),
      this.cells.node,
      this.hint,
    );
    this.order = Promise.resolve();
    this.live = new Live(`jobs/${job}/states/events`, {
      states: ({ packed }) => this.enqueue(async () => this.replace(await unpack(packed))),
      runs: ({ tasks, runs }) => this.enqueue(() => this.change(tasks, runs)),
      end: () => this.live.finish(),
    });
  }

  /** Whole states are unpacked while the next event may come; what came first is applied first. */
  enqueue(apply) {
    this.order = this.order.then(apply);
  }

  replace(bytes) {
    this.states.replace(bytes);
    this.cells.plan();
    this.count();
  }

  change(tasks, runs) {
    this.states.change(tasks, runs);
    this.cells.change(runs);
    this.count();
    const pointed = this.cells.task;
    if (pointed && runs.some(([first, last]) => first <= pointed && pointed <= last)) this.point(pointed);
  }

  /** The job runs again after it had ended. */
  restart() {
    this.live.restart();
  }

  makeLegend(state) {
    const number = h("b", {}, "0");
    const node = h(
      "button",
      {
        type: "button",
        "data-state": state,
        title: `Go to the next task that is ${state}`,
        click: () => this.goNext(state),
      },
      number,
      ` ${state}`,
    );
    return { state, number, node };
  }

  goNext(state) {
    const task = this.states.findNext(state, this.cells.task) || this.states.findNext(state);
    if (!task) return;
    this.cells.point(task);
    this.cells.node.focus();
  }

  count() {
    for (const { state, number } of this.legend)
      setText(number, formatCount(this.states.counts[STATES.indexOf(state)]));
    const group = this.cells.grid?.group ?? 1;
    setText(
      this.hint,
      group > 1 ? `${HINT} ${group} tasks share a pixel, which shows the one that needs attention most.` : HINT,
    );
  }

  point(task) {
    clearTimeout(this.timer);
    this.abort?.abort();
    if (!task) return;
    const state = STATES[this.states.bytes[task - 1]];
    setText(this.title, `Task ${formatCount(task)}`);
    setText(this.details, state);
    this.timer = setTimeout(() => this.look(task), PATIENCE);
  }

  async look(task) {
    this.abort = new AbortController();
    try {
      const row = await getJson(`jobs/${this.job}/tasks/${task}`, this.abort.signal);
      if (this.cells.task === task) setText(this.details, describeTask(row, this.app));
    } catch (error) {
      if (!isAborted(error)) setText(this.details, error.message);
    }
  }

  close() {
    clearTimeout(this.timer);
    this.abort?.abort();
    this.live.close();
    this.cells.close();
  }
}

/** A task in one line. */
export function describeTask(row, app) {
  const took = row.started && row.ended ? `after ${formatSeconds(row.ended - row.started)}` : "";
  const runs = row.state === "running" && row.claimed ? `for ${formatSeconds(Math.max(0, app.now - row.claimed))}` : "";
  const where = row.worker ? `on ${nameWorker(app, row.worker)}` : "";
  const attempt = row.attempt > 1 ? `attempt ${row.attempt}` : "";
  const last = row.state === "failed" ? findLastLine(row.tail) : "";
  return [
    [row.state, runs, took, where].filter(Boolean).join(" "),
    attempt,
    describeEnding(row),
    formatBytes(row.peak_memory_bytes),
    last,
  ]
    .filter(Boolean)
    .join(" · ");
}

export function nameWorker(app, id) {
  return app.crew.workers.get(id)?.name ?? id;
}

export function findLastLine(tail) {
  return (tail ?? "").trimEnd().split("\n").at(-1).slice(0, 300);
}
