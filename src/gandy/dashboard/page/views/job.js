// One job: how far it is, each of its tasks as a cell, how they went, and what can be done about it.

import { getJson, isAborted, poll } from "../lib/api.js";
import { isOver } from "../lib/crew.js";
import { h, setHidden, setText } from "../lib/dom.js";
import {
  count,
  formatBytes,
  formatCommand,
  formatLeft,
  formatMoment,
  formatPercent,
  formatRate,
  formatSeconds,
  formatShort,
} from "../lib/format.js";
import { linkJob } from "../lib/router.js";
import { JobActions } from "../ui/actions.js";
import { Explanation } from "../ui/explanation.js";
import { describeState, nameJob } from "../ui/jobtable.js";
import { OutputOfJob } from "../ui/joboutput.js";
import { empty, facts, panel, Progress, Stat, State } from "../ui/pieces.js";
import { Distributions, Failures, Timeline } from "../ui/summary.js";
import { TaskPicture } from "../ui/taskpicture.js";

const PERIOD = 4; // seconds between two looks at what the stream does not tell

export class JobView {
  constructor(app, { job }) {
    this.app = app;
    this.number = job;
    this.title = `Job ${job}`;
    this.row = null;
    this.abort = new AbortController();
    this.node = h("div", { class: "job" });
    this.makeHead();
    this.picture = new TaskPicture(app, job);
    this.distributions = new Distributions();
    this.failures = new Failures(job);
    this.timeline = new Timeline(app, job);
    this.output = new OutputOfJob(app, job, this.picture.states);
    this.explained = new Explanation();
    this.settings = h("div");
    this.node.append(this.head, ...this.layOut());
    poll(this.abort.signal, PERIOD, () => this.look());
  }

  makeHead() {
    this.name = h("h1", {}, this.title);
    this.state = new State();
    this.actions = new JobActions(this.app, this.number, (row) => this.onChanged(row));
    this.progress = new Progress();
    this.stats = {
      done: new Stat("Done"),
      rate: new Stat("Tasks per second"),
      left: new Stat("Time left"),
      running: new Stat("Running"),
      waiting: new Stat("Waiting"),
      failed: new Stat("Failed"),
    };
    this.head = h(
      "header",
      { class: "head" },
      h("p", { class: "crumbs" }, h("a", { href: "#/jobs" }, "Jobs"), " / ", h("span", {}, this.title)),
      h("div", { class: "title" }, this.name, this.state.node, this.actions.node),
    );
  }

  layOut() {
    const { durations, memory } = this.distributions;
    return [
      h(
        "section",
        { class: "stats with-bar", "aria-label": "Progress" },
        this.progress.node,
        Object.values(this.stats).map(({ node }) => node),
      ),
      panel("Tasks", {}, this.picture.node),
      h(
        "div",
        { class: "pair" },
        panel("Failures", {}, this.failures.node),
        panel("Explanation", {}, this.explained.node),
      ),
      h("div", { class: "pair" }, panel(null, {}, durations.node), panel(null, {}, memory.node)),
      panel("Attempts over time", { aside: this.timeline.readout }, this.timeline.node),
      h(
        "div",
        { class: "pair" },
        panel("Output", { aside: this.output.aside }, this.output.node),
        panel("Settings", {}, this.settings),
      ),
    ];
  }

  /** What the crew's stream says, over what the foreman was last asked. */
  get job() {
    const live = this.app.crew.jobs.get(this.number);
    return this.row ? { ...this.row, ...live } : live;
  }

  update() {
    const { job } = this;
    if (!job) return;
    setText(this.name, nameJob(job));
    this.state.update(job.held && !isOver(job) ? "paused" : job.state, describeState(job));
    this.actions.update(job);
    this.progress.update(job);
    this.updateStats(job);
    this.output.update(job);
    this.noteEnd(isOver(job));
  }

  /** The job may end, and run again when tasks are retried. */
  noteEnd(over) {
    const before = this.wasOver;
    this.wasOver = over;
    if (before === true && !over) this.picture.restart();
    if (before !== false || !over) return;
    this.hasAll = false;
    this.look().catch(() => {}); // the next look tries again
  }

  updateStats(job) {
    const over = job.finished + job.failed + job.cancelled;
    const took = this.row && isOver(job) ? this.row.changed - job.submitted : this.app.now - job.submitted;
    this.stats.done.update(formatPercent(over, job.tasks), "", `${formatShort(over)} of ${count(job.tasks, "task")}`);
    this.stats.rate.update(
      isOver(job) ? formatRate(over / Math.max(took, 0.001)) : formatRate(job.rate),
      "",
      isOver(job) ? "on average" : "now",
    );
    this.stats.left.update(
      isOver(job) ? "–" : formatLeft(job.left_seconds) || "–",
      "",
      took > 0 ? `${formatSeconds(took)} ${isOver(job) ? "in all" : "so far"}` : "",
    );
    this.stats.running.update(formatShort(job.running), "", `${formatShort(job.assigned)} assigned`);
    this.stats.waiting.update(formatShort(job.waiting), "", job.held ? "held" : "");
    this.stats.failed.update(
      formatShort(job.failed),
      "",
      job.cancelled ? `${formatShort(job.cancelled)} cancelled` : "",
    );
  }

  /** Ask for what the stream does not tell; of a job that has ended, only once. */
  async look() {
    if (this.row && isOver(this.row) && isOver(this.job) && this.hasAll) return;
    const { signal } = this.abort;
    try {
      const row = await getJson(`jobs/${this.number}`, signal);
      this.showRow(row);
      const [summary, { lines }] = await Promise.all([
        getJson(`jobs/${this.number}/summary`, signal),
        getJson(`jobs/${this.number}/explain`, signal),
      ]);
      this.showSummary(summary);
      this.explained.update(lines);
      this.hasAll = isOver(row);
    } catch (error) {
      if (isAborted(error)) return;
      if (error.status === 404 && this.row === null) this.refuse(error);
      else throw error;
    }
  }

  refuse(error) {
    this.abort.abort();
    this.node.replaceChildren(this.head, panel(null, {}, empty(error.message, "gandy job list")));
    setHidden(this.state.node, true);
  }

  showRow(row) {
    if (this.row?.changed !== row.changed) this.settings.replaceChildren(listSettings(row));
    this.row = row;
    this.update();
  }

  showSummary(summary) {
    for (const part of [this.distributions, this.failures, this.timeline]) part.update(summary);
  }

  onChanged(row) {
    this.hasAll = false;
    this.showRow(row);
  }

  close() {
    this.abort.abort();
    for (const part of [this.picture, this.distributions, this.timeline, this.output]) part.close();
  }
}

/** Links to other jobs; empty, if there are none. */
function listJobs(jobs) {
  if (!jobs?.length) return "";
  return h(
    "span",
    {},
    jobs.flatMap((job) => [h("a", { href: linkJob(job) }, `job ${job}`), " "]),
  );
}

function listSettings(row) {
  return facts([
    ["Command", h("code", {}, formatCommand(row.command))],
    ["Folder", row.cwd && h("code", {}, row.cwd)],
    ["Environment", Object.keys(row.env ?? {}).join(" ")],
    ["Submitted", formatMoment(row.submitted)],
    ["Changed", formatMoment(row.changed)],
    ["Priority", row.priority ? String(row.priority) : ""],
    ["Retries", row.retries ? String(row.retries) : ""],
    ["Timeout", row.timeout ? formatSeconds(row.timeout) : ""],
    ["Memory limit", row.memory ? formatBytes(row.memory) : ""],
    ["Slots", row.slots > 1 ? `${row.slots} for each task` : ""],
    ["Limit", row.limit ? `${count(row.limit, "task")} at the same time` : ""],
    ["Tags", (row.tags ?? []).join(", ")],
    ["After", listJobs(row.after)],
    ["After any end of", listJobs(row.after_any)],
    ["Task by task after", listJobs(row.after_each)],
    ["Problem", row.problem ?? ""],
  ]);
}
