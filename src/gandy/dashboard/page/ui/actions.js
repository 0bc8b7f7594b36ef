// What a client's key may change: jobs, tasks and workers. An observer's page has none of these buttons.

import { isOver } from "../lib/crew.js";
import { h, setAttribute, setHidden, setText } from "../lib/dom.js";
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

/** Buttons for one worker: the verbs of `gandy worker`, of one that has this id. */
export class WorkerActions {
  constructor(app) {
    this.node = null;
    if (!app.canChange) return;
    this.drain = h("button", { type: "button", hidden: true, click: () => this.askDrain() }, "Drain");
    this.stop = h("button", { type: "button", class: "bad", hidden: true, click: () => this.askStop() }, "Stop now");
    this.node = h("menu", { class: "actions small", "aria-label": "Change the worker" }, this.drain, this.stop);
  }

  update(worker) {
    if (this.node === null) return;
    this.worker = worker;
    setAttribute(this.drain, "aria-label", `Drain worker ${worker.name}`);
    setAttribute(this.stop, "aria-label", `Stop worker ${worker.name} now`);
    setHidden(this.drain, worker.state === "draining" || worker.state === "absent");
    setHidden(this.stop, worker.state === "absent");
  }

  askDrain() {
    const { running, calls } = this.worker;
    const parts = [running && count(running, "running task"), calls && count(calls, "call")].filter(Boolean);
    const text = parts.length ? `It gets no more tasks. ${parts.join(" and ")} end first, then it stops.` : "It stops.";
    return this.change(false, "Drain", text, "stops when its tasks have ended");
  }

  askStop() {
    const { running, calls } = this.worker;
    const killed = `${count(running, "running task")} will be killed, and run again on other workers.`;
    const lost = calls ? ` ${count(calls, "call")} will fail.` : "";
    return this.change(true, "Stop", running || calls ? `${killed}${lost}` : "It has nothing to do.", "stops now");
  }

  change(immediate, words, text, done) {
    const { id, name } = this.worker;
    const verb = `${words} worker ${name}`;
    const question = { title: `${verb}?`, text, verb, isBad: immediate };
    return change(question, `workers/${encodeURIComponent(id)}/stop`, { immediate }, `Worker ${name} ${done}.`);
  }
}
