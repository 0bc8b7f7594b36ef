// How the tasks of a job went: durations, memory, failures that are alike, and what ran where and when.

import { readColour } from "../lib/colours.js";
import { compareWords } from "../lib/crew.js";
import { h, Rows, setHidden, setText } from "../lib/dom.js";
import { count, formatBytes, formatClock, formatCount, formatMicroseconds, formatSeconds } from "../lib/format.js";
import { linkTask } from "../lib/router.js";
import { Histogram } from "./bars.js";
import { Lanes, TimeScale } from "./lanes.js";
import { nameWorker } from "./taskpicture.js";

export class Distributions {
  constructor() {
    this.durations = new Histogram("Durations", formatMicroseconds);
    this.memory = new Histogram("Memory", formatBytes);
  }

  update({ durations, memory }) {
    const marks = [
      ["median", durations.p50_us],
      ["99 %", durations.p99_us],
      ["longest", durations.max_us],
    ];
    this.durations.update(durations.bars, marks, "no attempt has ended yet");
    const sizes = [
      ["median", memory.p50_bytes],
      ["99 %", memory.p99_bytes],
      ["most", memory.max_bytes],
    ];
    this.memory.update(memory.bars, sizes, "not measured: attempts were too short, or their worker does not measure");
  }

  close() {
    this.durations.close();
    this.memory.close();
  }
}

/** Failures grouped by their last words. */
export class Failures {
  constructor(job) {
    this.job = job;
    this.list = h("ul", { class: "failures" });
    this.nothing = h("p", { class: "soft" }, "No task has failed.");
    this.more = h("p", { class: "soft more", hidden: true });
    this.node = h("div", {}, this.nothing, this.list, this.more);
    this.rows = new Rows(
      this.list,
      ({ words, cause }) => `${cause}\n${words}`,
      () => this.makeRow(),
    );
  }

  update({ failures, failures_sampled: looked, failures_of: all }) {
    setHidden(this.nothing, failures.length > 0);
    this.rows.update(failures);
    setHidden(this.more, !all || looked === all);
    setText(this.more, `Of ${formatCount(all ?? 0)} failures, ${formatCount(looked ?? 0)} were looked at.`);
  }

  makeRow() {
    const words = h("p", { class: "words" });
    const about = h("span");
    const tasks = h("span", { class: "tasks" });
    const links = new Rows(
      tasks,
      (task) => task,
      (task) => this.makeLink(task),
    );
    const node = h("li", {}, words, h("p", { class: "soft" }, about, tasks));
    return {
      node,
      update(group) {
        setText(words, group.words || "It wrote nothing to standard error.");
        setText(about, `${count(group.count, "task")} · ${group.cause} · task`);
        links.update(group.tasks);
      },
    };
  }

  makeLink(task) {
    return { node: h("a", { href: linkTask(this.job, task), "data-row": true }, formatCount(task)), update() {} };
  }
}

/** Attempts as bars in lanes of their workers. */
export class Timeline {
  constructor(app, job) {
    Object.assign(this, { app, job });
    this.readout = h("output", { class: "readout" });
    this.list = h("div", { class: "timeline" });
    this.scale = new TimeScale();
    this.nothing = h("p", { class: "soft" }, "No attempt has begun.");
    this.node = h("div", {}, this.nothing, this.list, this.scale.node);
    this.rows = new Rows(
      this.list,
      ({ worker }) => worker,
      ({ worker }) => this.makeRow(worker),
    );
  }

  update({ timeline, sampled, of }) {
    setHidden(this.nothing, timeline.length > 0);
    setHidden(this.scale.node, timeline.length === 0);
    if (!timeline.length) return this.rows.update([]);
    this.note =
      sampled < of ? `a sample of ${formatCount(sampled)} of ${count(of, "task")}` : count(timeline.length, "attempt");
    setText(this.readout, this.note);
    const now = this.app.now;
    const from = Math.min(...timeline.map((span) => span.began));
    const to = Math.max(from + 0.001, ...timeline.map((span) => span.ended ?? now));
    const groups = groupByWorker(timeline);
    const rows = [...groups].map(([worker, spans]) => ({
      worker,
      name: nameWorker(this.app, worker),
      spans,
      from,
      to,
    }));
    this.rows.update(rows.sort((one, other) => compareWords(one.name, other.name)).slice(0, 60));
    this.scale.update(from, to);
  }

  makeRow(worker) {
    const name = h("span", { class: "name" });
    const lanes = new Lanes({
      colourSpan: (span) => readColour(span.state),
      label: `Attempts on ${nameWorker(this.app, worker)}`,
      onPoint: (span) => setText(this.readout, span ? describeSpan(span) : this.note),
      onOpen: (span) => {
        location.hash = linkTask(this.job, span.task);
      },
    });
    const node = h("div", { class: "row" }, name, lanes.node);
    return {
      node,
      update(row) {
        setText(name, row.name);
        lanes.update({ ...row, lanes: Math.max(...row.spans.map((span) => span.lane)) + 1 });
      },
      close: () => lanes.close(),
    };
  }

  close() {
    this.rows.update([]);
    this.scale.close();
  }
}

export function describeSpan(span) {
  const times = span.ended
    ? `${formatSeconds(span.ended - span.began)} from ${formatClock(span.began)}`
    : `since ${formatClock(span.began)}`;
  if (span.command !== undefined) return `Call of ${span.command}: ${span.state}, ${times}`;
  const job = span.job ? `Job ${span.job}, task` : "Task";
  return `${job} ${formatCount(span.task)}, attempt ${span.attempt}: ${span.state}, ${times}`;
}

function groupByWorker(spans) {
  const groups = new Map();
  for (const span of spans) {
    if (!groups.has(span.worker)) groups.set(span.worker, []);
    groups.get(span.worker).push(span);
  }
  return groups;
}
