// A table of jobs with their progress, of rows that the crew's stream or a page of the API gives.

import { isOver } from "../lib/crew.js";
import { h, Rows, setText } from "../lib/dom.js";
import {
  formatAge,
  formatCommand,
  formatMoment,
  formatPercent,
  formatRate,
  formatLeft,
  formatShort,
} from "../lib/format.js";
import { linkJob } from "../lib/router.js";
import { cell, Progress, State, table } from "./pieces.js";

const COLUMNS = [
  ["Job", "n job"],
  ["Name", "name"],
  ["State", "kind"],
  ["Progress", "wide"],
  ["Done", "n"],
  ["Tasks", "n"],
  ["Failed", "n"],
  ["Per second", "n"],
  ["Time left", "n left"],
  ["Submitted", "n age"],
];

/** The name of a job, or its command. */
export function nameJob(job) {
  return job.name || formatCommand(job.command);
}

/** The state of a job in one word; a job that is held says so. */
export function describeState(job) {
  return job.held && !isOver(job) ? "held" : job.state;
}

export class JobTable {
  constructor({ most = Infinity } = {}) {
    this.most = most;
    this.body = h("tbody");
    this.node = table(COLUMNS, this.body, "Jobs");
    this.node.classList.add("jobs");
    this.rows = new Rows(
      this.body,
      (job) => job.job,
      (job) => this.makeRow(job),
    );
  }

  update(jobs, now) {
    this.now = now;
    this.rows.update(jobs.slice(0, this.most));
  }

  makeRow(first) {
    const link = h("a", { href: linkJob(first.job), "data-row": true });
    const progress = new Progress();
    const state = new State();
    const cells = Object.fromEntries(
      ["percent", "tasks", "failed", "rate", "left", "age"].map((name) => [name, h("td", { class: `n ${name}` })]),
    );
    const name = h("td", { class: "name" }, link);
    const node = h(
      "tr",
      {},
      cell("n job", String(first.job)),
      name,
      cell("kind", state.node),
      cell("wide", progress.node),
      ...Object.values(cells),
    );
    return { node, update: (job) => this.updateRow(job, { link, progress, state, ...cells }) };
  }

  updateRow(job, { link, progress, state, percent, tasks, failed, rate, left, age }) {
    setText(link, nameJob(job));
    if (link.title !== link.textContent) link.title = link.textContent;
    progress.update(job);
    state.update(job.held && !isOver(job) ? "paused" : job.state, describeState(job));
    setText(percent, formatPercent(job.finished + job.failed + job.cancelled, job.tasks));
    setText(tasks, formatShort(job.tasks));
    setText(failed, job.failed ? formatShort(job.failed) : "");
    setText(rate, job.rate ? formatRate(job.rate) : "");
    setText(left, isOver(job) ? "" : formatLeft(job.left_seconds));
    setText(age, formatAge(job.submitted, this.now));
    if (age.title === "") age.title = formatMoment(job.submitted);
  }
}
