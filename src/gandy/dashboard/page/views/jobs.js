// All jobs, the newest first, a page at a time; those that the stream tells of are shown as they are now.

import { getJson, isAborted } from "../lib/api.js";
import { h, setAttribute, setHidden } from "../lib/dom.js";
import { matches } from "../lib/text.js";
import { JobTable, nameJob } from "../ui/jobtable.js";
import { empty, panel } from "../ui/pieces.js";

const STATES = ["all", "running", "waiting", "paused", "failed", "finished", "cancelled"];
const PAGE = 100;

export class JobsView {
  title = "Jobs";

  constructor(app, route) {
    this.app = app;
    this.abort = new AbortController();
    this.jobs = new Map();
    this.table = new JobTable();
    this.field = h("input", {
      type: "search",
      placeholder: "Filter by name or number  ( / )",
      "aria-label": "Filter",
      input: () => this.onFilter(),
    });
    this.tabs = STATES.map((state) => h("button", { type: "button", click: () => this.choose(state) }, state));
    this.more = h("button", { type: "button", hidden: true, click: () => this.load() }, "Older jobs");
    this.nothing = empty("No jobs here. To run a hundred tasks, type", "gandy submit --tasks 100 'sleep 1'");
    this.nothing.hidden = true;
    this.node = h(
      "div",
      {},
      h("header", { class: "head" }, h("div", { class: "title" }, h("h1", {}, "Jobs"), this.field)),
      h("div", { class: "tabs wide", role: "group", "aria-label": "State" }, this.tabs),
      panel(null, { class: "flush" }, this.table.node, this.nothing),
      h("p", { class: "more" }, this.more),
    );
    this.onRoute(route);
  }

  accepts({ view }) {
    return view === "jobs";
  }

  onRoute({ query }) {
    this.query = query;
    if (this.field.value !== (query.filter ?? "")) this.field.value = query.filter ?? "";
    const state = STATES.includes(query.state) ? query.state : "all";
    this.tabs.forEach((tab) => setAttribute(tab, "aria-pressed", tab.textContent === state));
    if (state === this.state) return this.update();
    this.state = state;
    this.jobs = new Map();
    this.before = null;
    this.load();
  }

  choose(state) {
    this.app.go({ view: "jobs", query: { ...this.query, state: state === "all" ? null : state } });
  }

  onFilter() {
    this.app.go({ view: "jobs", query: { ...this.query, filter: this.field.value } }, true);
  }

  async load() {
    const { state } = this;
    const words = [`limit=${PAGE}`];
    if (state !== "all") words.push(`state=${state}`);
    if (this.before) words.push(`before=${this.before}`);
    try {
      const page = await getJson(`jobs?${words.join("&")}`, this.abort.signal);
      if (state !== this.state) return;
      for (const job of page.jobs) this.jobs.set(job.job, job);
      this.before = page.next;
      this.isLoaded = true;
      this.update();
    } catch (error) {
      if (!isAborted(error)) this.nothing.firstChild.textContent = error.message;
    }
  }

  update() {
    const live = this.app.crew.jobs;
    const all = new Map(this.jobs);
    for (const [number, job] of live) {
      if (number > (this.before ?? 0)) all.set(number, { ...all.get(number), ...job });
    }
    const found = [...all.values()].filter((job) => this.state === "all" || job.state === this.state);
    const shown = found.filter((job) => matches(this.field.value, String(job.job), nameJob(job)));
    shown.sort((one, other) => other.job - one.job);
    this.table.update(shown, this.app.now);
    setHidden(this.more, !this.before);
    setHidden(this.nothing, !this.isLoaded || shown.length > 0);
    setHidden(this.table.node, Boolean(this.isLoaded) && shown.length === 0);
  }

  close() {
    this.abort.abort();
  }
}
