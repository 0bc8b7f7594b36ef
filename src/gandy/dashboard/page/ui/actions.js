// What a client's key may change: jobs and tasks. An observer's page has none of these buttons.

import { isOver } from "../lib/crew.js";
import { h, setHidden, setText } from "../lib/dom.js";
import { count } from "../lib/format.js";
import { change } from "./ask.js";

/** Buttons for a job. `onRow(row)` gets the job as it is afterwards. */
export class JobActions {
  constructor(app, number, onRow) {
    this.number = number;
    this.onRow = onRow;
    this.node = null;
    if (!app.canChange) return;
    const button = (words, kind, act) => h("button", { type: "button", class: kind, hidden: true, click: act }, words);
    this.hold = button("Hold", null, () =>
      this.change("hold", "Hold", "No more tasks of it start; what runs goes on."),
    );
    this.release = button("Release", null, () => this.change("release", "Release", "Its tasks may start again."));
    this.retry = button("Retry", null, () => this.askRetry());
    this.cancel = button("Cancel", "bad", () => this.askCancel());
    this.node = h(
      "menu",
      { class: "actions", "aria-label": "Change the job" },
      this.retry,
      this.hold,
      this.release,
      this.cancel,
    );
  }

  update(job) {
    if (this.node === null) return;
    this.job = job;
    const over = isOver(job);
    setHidden(this.hold, over || job.held);
    setHidden(this.release, over || !job.held);
    setHidden(this.cancel, over);
    setHidden(this.retry, !job.failed && !job.cancelled);
    setText(this.retry, job.cancelled ? "Retry" : "Retry failed");
  }

  askCancel() {
    const { waiting, assigned, running } = this.job;
    const killed = count(running, "running task");
    const text = `${count(waiting + assigned, "task")} will never start, and ${killed} will be killed.`;
    return this.change("cancel", "Cancel", text, true);
  }

  askRetry() {
    const parts = ["failed", "cancelled"]
      .filter((state) => this.job[state])
      .map((state) => count(this.job[state], `${state} task`));
    return this.change("retry", "Retry", `${parts.join(" and ")} will run again.`);
  }

  async change(verb, words, text, isBad = false) {
    const question = { title: `${words} job ${this.number}?`, text, verb: `${words} job ${this.number}`, isBad };
    const done = { hold: "is held", release: "is released", retry: "runs again", cancel: "is cancelled" }[verb];
    const row = await change(question, `jobs/${this.number}/${verb}`, {}, `Job ${this.number} ${done}.`);
    if (row) this.onRow(row);
  }
}

/** Buttons for one task. */
export class TaskActions {
  constructor(app, job, task, onChanged) {
    this.node = null;
    if (!app.canChange) return;
    Object.assign(this, { job, task, onChanged });
    this.retry = h(
      "button",
      {
        type: "button",
        class: "main",
        hidden: true,
        click: () => this.change("retry", "Retry", "It will run again, as a new attempt.", "runs again"),
      },
      "Retry",
    );
    this.cancel = h(
      "button",
      {
        type: "button",
        class: "bad",
        hidden: true,
        click: () =>
          this.change("cancel", "Cancel", "If it runs it is killed; if not, it will never start.", "is cancelled"),
      },
      "Cancel",
    );
    this.node = h("menu", { class: "actions", "aria-label": "Change the task" }, this.retry, this.cancel);
  }

  update({ state }) {
    if (this.node === null) return;
    setHidden(this.retry, state !== "failed" && state !== "cancelled");
    setHidden(this.cancel, ["failed", "cancelled", "finished"].includes(state));
  }

  async change(verb, words, text, done) {
    const question = {
      title: `${words} task ${this.task} of job ${this.job}?`,
      text,
      verb: `${words} task ${this.task}`,
      isBad: verb === "cancel",
    };
    const row = await change(
      question,
      `jobs/${this.job}/${verb}`,
      { tasks: [this.task] },
      `Task ${this.task} ${done}.`,
    );
    if (row) this.onChanged(row);
  }
}
