// What waits, and why: what the picture tells at once, and what the foreman explains of the jobs that wait first.

import { getJson, poll } from "../lib/api.js";
import { isOver, listReasons } from "../lib/crew.js";
import { h, Rows, setHidden, setText } from "../lib/dom.js";
import { count } from "../lib/format.js";
import { linkJob } from "../lib/router.js";
import { dropCounts } from "./explanation.js";

const ASKED = 3; // jobs that are explained
const PERIOD = 5; // seconds

const REASONS = {
  held: "held until they are released",
  worker: "no worker is connected",
  slots: "all slots are in use",
  other: "for room, for other jobs, or for a retry",
};

export class WaitingList {
  constructor(signal) {
    this.lines = new Map(); // by job
    this.reasons = h("ul", { class: "reasons" });
    this.jobs = h("ul", { class: "explained" });
    this.nothing = h("p", { class: "soft" }, "Nothing waits.");
    this.node = h("div", { class: "waiting" }, this.nothing, this.reasons, this.jobs);
    this.reasonRows = new Rows(this.reasons, ({ why }) => why, makeReason);
    this.jobRows = new Rows(this.jobs, ({ job }) => job, makeExplained);
    this.signal = signal;
    poll(signal, PERIOD, () => this.explain());
  }

  update(crew, isPast) {
    const reasons = listReasons(crew);
    setHidden(this.nothing, reasons.length > 0);
    this.reasonRows.update(reasons);
    this.asked = isPast ? [] : listFirst(crew);
    if (!this.hasAsked && this.asked.length) this.explain().catch(() => {}); // the next look tries again
    this.jobRows.update(
      this.asked.filter(({ job }) => this.lines.has(job)).map((job) => ({ ...job, lines: this.lines.get(job.job) })),
    );
  }

  async explain() {
    if (!this.asked) return;
    this.hasAsked = true;
    for (const { job } of this.asked) {
      const { lines } = await getJson(`jobs/${job}/explain`, this.signal);
      this.lines.set(job, lines);
    }
    if (this.lines.size > 100) this.lines.clear();
  }
}

function listFirst(crew) {
  const waiting = [...crew.jobs.values()].filter((job) => job.waiting && !isOver(job));
  return waiting.sort((one, other) => other.priority - one.priority || one.job - other.job).slice(0, ASKED);
}

function makeReason() {
  const number = h("b");
  const why = h("span");
  const node = h("li", {}, number, why);
  return {
    node,
    update(reason) {
      setText(number, count(reason.tasks, "task"));
      setText(why, REASONS[reason.why]);
    },
  };
}

function makeExplained({ job }) {
  const words = h("span");
  const node = h("li", {}, h("a", { href: linkJob(job) }, `Job ${job}`), words);
  return {
    node,
    update: ({ lines }) => setText(words, dropCounts(lines)[0] ?? "Its tasks start as slots become free."),
  };
}
