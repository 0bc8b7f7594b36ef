// The whole crew at a glance, now or at a moment of the past: trouble, numbers, the last minutes, jobs, workers.

import { getJson, isAborted } from "../lib/api.js";
import { Crew } from "../lib/crew.js";
import { h, setHidden, setText } from "../lib/dom.js";
import { count, formatCount, formatMoment, formatRate, formatSeconds, formatShort } from "../lib/format.js";
import { Chart } from "../ui/chart.js";
import { JobTable } from "../ui/jobtable.js";
import { empty, panel, Stat } from "../ui/pieces.js";
import { TimeAxis } from "../ui/timeaxis.js";
import { TroubleList } from "../ui/trouble.js";
import { WaitingList } from "../ui/waiting.js";
import { WorkerStrip } from "../ui/workerstrip.js";

const WINDOW = 900; // seconds that charts show
const SHORTEST = 120;
const SHOWN_JOBS = 12;

export class Overview {
  title = "Overview";

  constructor(app, route) {
    this.app = app;
    this.past = null; // the crew as it was, if that is shown
    this.abort = new AbortController();
    this.axis = app.session.can_see_history ? new TimeAxis(app, this.abort.signal, (at) => this.pick(at)) : null;
    this.trouble = new TroubleList();
    this.waiting = new WaitingList(this.abort.signal);
    this.jobs = new JobTable({ most: SHOWN_JOBS });
    this.workers = new WorkerStrip();
    this.makeStats();
    this.makeCharts();
    this.node = h("div", { class: "overview" }, h("h1", { class: "quiet" }, "Overview"), ...this.layOut());
    this.onRoute(route);
  }

  makeStats() {
    this.stats = {
      rate: new Stat("Tasks per second"),
      slots: new Stat("Slots in use", { href: "#/workers" }),
      running: new Stat("Running"),
      waiting: new Stat("Waiting"),
      failed: new Stat("Failed", { href: "#/jobs?state=failed" }),
      calls: new Stat("Calls per second", { href: "#/calls" }),
    };
  }

  makeCharts() {
    this.tasks = new Chart({
      title: "Tasks per second",
      series: [
        { column: 1, colour: "finished", fill: 0.16 },
        { column: 2, colour: "failed", fill: 0.2 },
      ],
      describe: (point) => `${formatRate(point[1])} finished${point[2] ? `, ${formatRate(point[2])} failed` : ""}`,
      format: formatRate,
    });
    this.slots = new Chart({
      title: "Slots in use",
      series: [
        { column: 5, colour: "soft" },
        { column: 4, colour: "running", fill: 0.16 },
      ],
      describe: (point) => `${formatCount(point[4])} of ${formatCount(point[5])}`,
      format: (value) => (Number.isInteger(value) ? formatShort(value) : ""),
    });
  }

  layOut() {
    const back = h("button", { type: "button", class: "main", click: () => this.pick(null) }, "Back to now");
    this.pastWords = h("b");
    this.pastBar = h(
      "div",
      { class: "past", role: "status", hidden: true },
      this.pastWords,
      h("span", {}, "Trouble and single attempts are not kept."),
      back,
    );
    this.noJobs = empty("No jobs yet. To run a hundred tasks, type", "gandy submit --tasks 100 'sleep 1'");
    this.noWorkers = empty("No workers. To start one on this machine, type", "gandy worker run");
    const allJobs = h("a", { href: "#/jobs" }, "All jobs");
    const allWorkers = h("a", { href: "#/workers" }, "All workers");
    return [
      this.axis?.node,
      this.pastBar,
      this.trouble.node,
      h(
        "section",
        { class: "stats", "aria-label": "Numbers" },
        Object.values(this.stats).map((stat) => stat.node),
      ),
      h("div", { class: "pair" }, panel(null, {}, this.slots.node), panel(null, {}, this.tasks.node)),
      h(
        "div",
        { class: "main-and-side" },
        panel("Jobs", { aside: allJobs, class: "flush" }, this.jobs.node, this.noJobs),
        h(
          "div",
          { class: "side" },
          panel("What waits, and why", {}, this.waiting.node),
          panel("Workers", { aside: allWorkers }, this.workers.node, this.noWorkers),
        ),
      ),
    ];
  }

  // The past

  accepts({ view }) {
    return view === "overview";
  }

  onRoute({ query }) {
    const at = Number(query.at) || null;
    if (at === (this.at ?? null) && this.node.isConnected) return;
    this.at = at;
    this.axis?.show(at, query.range);
    document.body.classList.toggle("is-past", at !== null);
    setHidden(this.pastBar, at === null);
    this.past = null;
    if (at === null) this.update();
    else this.loadPast(at);
  }

  pick(at) {
    this.app.go(
      { view: "overview", query: { at, range: this.axis.range === "day" ? null : this.axis.range } },
      at !== null && this.at !== null,
    );
  }

  async loadPast(at) {
    setText(this.pastWords, `${formatMoment(at)}: ${formatSeconds(this.app.now - at)} ago.`);
    try {
      const [whole, before] = await Promise.all([
        getJson(`history/at?at=${at}`, this.abort.signal),
        getJson(`history?from=${at - WINDOW}&to=${at}`, this.abort.signal),
      ]);
      if (this.at !== at) return;
      this.past = new Crew();
      this.past.replace({ ...whole, points: before.points });
      this.pastGap = Math.max(5, 2.5 * (before.period ?? 1));
      this.update();
    } catch (error) {
      if (isAborted(error) || this.at !== at) return;
      setText(this.pastWords, `${formatMoment(at)}: ${error.message}`);
    }
  }

  // What is drawn

  update() {
    const crew = this.at ? this.past : this.app.crew;
    if (crew === null || !crew.isKnown) return;
    const isPast = crew === this.past;
    const now = isPast ? this.at : this.app.now;
    setHidden(this.trouble.node, isPast);
    this.trouble.update(isPast ? [] : crew.now.trouble);
    this.updateStats(crew.now, isPast ? "" : "since you look");
    this.updateCharts(crew.points, now, isPast);
    const jobs = crew.listJobs();
    this.jobs.update(jobs, now);
    setHidden(this.noJobs, jobs.length > 0);
    setHidden(this.jobs.node, jobs.length === 0);
    const workers = crew.listWorkers();
    this.workers.update(workers);
    setHidden(this.noWorkers, workers.length > 0);
    this.waiting.update(crew, isPast);
    this.axis?.update();
  }

  /** Charts move a pixel a second, or less. */
  updateCharts(points, now, isPast) {
    if (Math.abs(now - this.drawn) < 0.5 && points === this.points) return;
    this.drawn = now;
    this.points = points;
    // A dashboard that has just begun to look has little to show, and shows it larger.
    const from = Math.max(now - WINDOW, Math.min(now - SHORTEST, points[0]?.[0] ?? now));
    for (const chart of [this.tasks, this.slots]) {
      chart.gap = isPast ? this.pastGap : 5;
      chart.update(points, from, now);
    }
  }

  updateStats(now, since) {
    const { rates, totals } = now;
    const percent = now.slots ? `${Math.round((100 * now.used) / now.slots)} %` : "";
    this.stats.rate.update(
      formatRate(rates.finished + rates.failed),
      "",
      since && `${formatShort(totals.finished)} ${since}`,
    );
    this.stats.slots.update(formatShort(now.used), ` / ${formatShort(now.slots)}`, percent);
    this.stats.running.update(formatShort(now.running), "", `${formatShort(now.assigned)} assigned`);
    this.stats.waiting.update(formatShort(now.waiting), "", `${count(now.unfinished, "job")} not ended`);
    this.stats.failed.update(
      formatShort(totals.failed),
      "",
      totals.repeated ? `${formatShort(totals.repeated)} tried again` : since,
    );
    this.stats.calls.update(
      formatRate(rates.calls),
      "",
      now.calls_waiting ? `${formatShort(now.calls_waiting)} wait` : "none waits",
    );
  }

  close() {
    this.abort.abort();
    document.body.classList.remove("is-past");
    for (const part of [this.tasks, this.slots, this.axis]) part?.close();
  }
}
