// One task: its attempts, how it ended, what it wrote, and why it is as it is.

import { getJson, isAborted, poll } from "../lib/api.js";
import { h, setHidden, setText } from "../lib/dom.js";
import { describeEnding, formatBytes, formatCount, formatMoment, formatSeconds } from "../lib/format.js";
import { linkJob, linkTask } from "../lib/router.js";
import { cleanOutput } from "../lib/text.js";
import { TaskActions } from "../ui/actions.js";
import { Explanation } from "../ui/explanation.js";
import { nameJob } from "../ui/jobtable.js";
import { Output } from "../ui/output.js";
import { cell, empty, facts, makeState, panel, State, table } from "../ui/pieces.js";
import { nameWorker } from "../ui/taskpicture.js";

const PERIOD = 1; // seconds between two looks, while the task is not over
const OVER = new Set(["finished", "failed", "cancelled"]);
const COLUMNS = [
  ["Attempt", "n"],
  ["State", "kind"],
  ["Worker", "name"],
  ["Began", "when opt"],
  ["Took", "n"],
  ["Memory", "n opt"],
  ["End", "name"],
];

export class TaskView {
  constructor(app, { job, task, query }) {
    Object.assign(this, { app, job, task });
    this.title = `Task ${task} of job ${job}`;
    this.row = null;
    this.output = null;
    this.stream = query.stream;
    this.abort = new AbortController();
    this.state = new State();
    this.actions = new TaskActions(app, job, task, () => this.look(true).catch(() => {})); // the next look tries again
    this.jobLink = h("a", { href: linkJob(job) }, `Job ${job}`);
    this.head = h(
      "header",
      { class: "head" },
      h(
        "p",
        { class: "crumbs" },
        h("a", { href: "#/jobs" }, "Jobs"),
        " / ",
        this.jobLink,
        " / ",
        h("span", {}, `Task ${formatCount(task)}`),
      ),
      h(
        "div",
        { class: "title" },
        h("h1", {}, `Task ${formatCount(task)}`),
        this.state.node,
        this.actions.node,
        this.makeSteps(),
      ),
    );
    this.ending = h("div");
    this.tail = h("pre", { class: "output tail" });
    this.tailPanel = panel("Last words", { hidden: true }, this.tail);
    this.explained = new Explanation();
    this.attempts = h("tbody");
    this.outputPanel = panel(
      "Output",
      {},
      h("div", { class: "output-host" }, h("p", { class: "soft" }, "It has not begun.")),
    );
    this.attemptsPanel = panel("Attempts", { class: "flush", hidden: true }, table(COLUMNS, this.attempts, "Attempts"));
    this.node = h(
      "div",
      { class: "of-task" },
      this.head,
      h("div", { class: "pair" }, panel("Details", {}, this.ending), panel("Explanation", {}, this.explained.node)),
      this.tailPanel,
      this.outputPanel,
      this.attemptsPanel,
    );
    poll(this.abort.signal, PERIOD, () => this.look());
  }

  makeSteps() {
    const link = (task, words, label) =>
      h("a", { href: linkTask(this.job, task), class: "button", "aria-label": label, title: label }, words);
    return h(
      "span",
      { class: "steps" },
      this.task > 1 ? link(this.task - 1, "‹", "The task before") : null,
      link(this.task + 1, "›", "The next task"),
    );
  }

  async look(isForced = false) {
    this.looks = (this.looks ?? 0) + 1;
    if (this.row && OVER.has(this.row.state) && !isForced && this.looks % 5) return; // it may be retried from elsewhere
    const { signal } = this.abort;
    const path = `jobs/${this.job}`;
    try {
      this.show(await getJson(`${path}/tasks/${this.task}`, signal));
      const { lines } = await getJson(`${path}/explain?task=${this.task}`, signal);
      this.explained.update(lines);
    } catch (error) {
      if (isAborted(error)) return;
      if (error.status === 404 && this.row === null) this.refuse(error);
      else throw error;
    }
  }

  refuse(error) {
    this.abort.abort();
    this.node.replaceChildren(this.head, panel(null, {}, empty(error.message, `gandy job show ${this.job} --tasks`)));
    setHidden(this.state.node, true);
  }

  show(row) {
    const isNew = !this.row || row.attempt !== this.row.attempt;
    this.row = row;
    this.state.update(row.state);
    this.actions.update(row);
    this.ending.replaceChildren(this.listFacts(row));
    const tail = cleanOutput(row.tail ?? "").trimEnd();
    setHidden(this.tailPanel, !tail);
    setText(this.tail, tail);
    this.attempts.replaceChildren(...[...row.attempts].reverse().map((attempt) => this.makeAttempt(attempt)));
    setHidden(this.attemptsPanel, !row.attempts.length);
    const stream = this.output?.isChosen ? this.output.stream : (this.stream ?? findStream(row));
    if (row.attempt && (isNew || stream !== this.output?.stream)) this.showOutput(stream);
  }

  update() {
    const job = this.app.crew.jobs.get(this.job);
    if (job) setText(this.jobLink, `Job ${this.job}: ${nameJob(job)}`);
  }

  /** Output is there from the first attempt on; each attempt writes from the beginning. */
  showOutput(stream) {
    const isChosen = this.output?.isChosen ?? false;
    this.output?.close();
    this.output = new Output(this.job, this.task, stream);
    this.output.isChosen = isChosen;
    this.outputPanel.firstChild.replaceChildren(h("h2", {}, "Output"), this.output.aside);
    this.outputPanel.lastChild.replaceChildren(this.output.node);
  }

  listFacts(row) {
    const took = row.started && row.ended ? formatSeconds(row.ended - row.started) : "";
    return facts([
      ["State", makeState(row.state)],
      ["End", describeEnding(row)],
      ["Note", row.note ?? ""],
      ["Attempt", row.attempt ? String(row.attempt) : "none yet"],
      ["Worker", row.worker ? this.linkWorker(row.worker) : ""],
      ["Given to it", formatMoment(row.claimed)],
      ["Began", formatMoment(row.started)],
      ["Ended", formatMoment(row.ended)],
      ["Took", took],
      ["Peak memory", formatBytes(row.peak_memory_bytes)],
      ["Wrote", describeOutput(row)],
    ]);
  }

  linkWorker(id) {
    const name = nameWorker(this.app, id);
    return h("a", { href: `#/workers?filter=${encodeURIComponent(name)}`, title: id }, name);
  }

  makeAttempt(attempt) {
    const began = attempt.started ?? attempt.claimed;
    const took = attempt.ended && began ? formatSeconds(attempt.ended - began) : "";
    return h(
      "tr",
      {},
      cell("n", String(attempt.attempt)),
      cell("kind", describeAttempt(attempt)),
      cell("name", nameWorker(this.app, attempt.worker)),
      cell("when opt", formatMoment(began)),
      cell("n", took),
      cell("n opt", formatBytes(attempt.peak_memory_bytes)),
      cell("name", describeEnding(attempt)),
    );
  }

  close() {
    this.abort.abort();
    this.output?.close();
  }
}

/** What a person wants to read first: why it failed, if that is all there is. */
function findStream({ state, out_bytes: out }) {
  return state === "failed" && !out ? "err" : "out";
}

/** The row of an attempt has the state that its end led to. */
function describeAttempt({ state, cause }) {
  if (state !== "waiting" || !cause) return makeState(state);
  return cause === "returned" ? makeState("assigned", "given back") : makeState("failed", "tried again");
}

function describeOutput({ out_bytes: out, err_bytes: err }) {
  if (out === null) return "";
  return [out, err].map((bytes, index) => `${formatKept(bytes)} to ${["stdout", "stderr"][index]}`).join(", ");
}

/** Below zero: something was written, perhaps, and is not kept. */
function formatKept(bytes) {
  return bytes < 0 ? "what is not kept" : formatBytes(bytes);
}
