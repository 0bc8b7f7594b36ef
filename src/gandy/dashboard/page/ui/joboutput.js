// The output of one of a job's tasks: of the first that failed, that runs, or that a person names.

import { h } from "../lib/dom.js";
import { linkTask } from "../lib/router.js";
import { Output } from "./output.js";

export class OutputOfJob {
  constructor(app, job, states) {
    Object.assign(this, { job, states });
    this.output = null;
    this.field = h("input", {
      type: "number",
      min: "1",
      "aria-label": "Number of the task",
      change: () => this.choose(),
    });
    this.link = h("a", { href: linkTask(job, 1) }, "open");
    this.tabs = h("span");
    this.aside = h("div", { class: "row-of-task" }, h("label", {}, "task ", this.field), this.link, this.tabs);
    this.host = h("div", { class: "output-host" }, h("p", { class: "soft" }, "No task has begun."));
    this.node = this.host;
  }

  /** Until a task is shown, look for one that has something to show. */
  update(job) {
    this.field.max = job.tasks;
    if (this.output !== null || job.waiting === job.tasks) return;
    const task = this.states.findNext("failed") || this.states.findNext("running") || this.states.findNext("finished");
    if (task) this.show(task, job.failed ? "err" : "out");
  }

  choose() {
    const task = Math.round(Number(this.field.value));
    if (task >= 1 && task <= Number(this.field.max)) this.show(task, this.output?.stream ?? "out");
  }

  show(task, stream) {
    this.output?.close();
    this.output = new Output(this.job, task, stream);
    this.field.value = task;
    this.link.href = linkTask(this.job, task);
    this.tabs.replaceChildren(this.output.aside);
    this.host.replaceChildren(this.output.node);
  }

  close() {
    this.output?.close();
  }
}
