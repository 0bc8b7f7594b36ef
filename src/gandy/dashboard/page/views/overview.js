// The whole crew at a glance, now or at a moment of the past: trouble, numbers, the last minutes, jobs, workers.

import { h, setHidden } from "../lib/dom.js";
import { count, formatCount, formatRate, formatShort } from "../lib/format.js";
import { Chart } from "../ui/chart.js";
import { Past } from "../ui/past.js";
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
    this.abort = new AbortController();
    this.axis = app.session.can_see_history ? new TimeAxis(app, this.abort.signal, (at) => this.pick(at)) : null;
    this.past = new Past(app, this.abort.signal, {
      seconds: WINDOW,
      onChange: () => this.update(),
      onBack: () => this.pick(null),
    });
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
    this.noJobs = empty("No jobs yet. To run a hundred tasks, type", "gandy submit --tasks 100 'sleep 1'");
    this.noWorkers = empty("No workers. To start one on this machine, type", "gandy worker run");
    const allJobs = h("a", { href: "#/jobs" }, "All jobs");
    const allWorkers = h("a", { href: "#/workers" }, "All workers");
    return [
      this.axis?.node,
      this.past.node,
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
    this.axis?.show(at, query.range);
    if (at !== this.past.at || !this.node.isConnected) this.past.show(at);
  }

  pick(at) {
    const range = this.axis && this.axis.range !== "day" ? this.axis.range : null;
    this.app.go({ view: "overview", query: { at, range } }, at !== null && this.past.at !== null);
  }

  // What is drawn

  update() {
    const crew = this.past.at ? this.past.crew : this.app.crew;
    if (crew === null || !crew.isKnown) return;
    const isPast = crew === this.past.crew;
    const now = isPast ? this.past.at : this.app.now;
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
      chart.gap = isPast ? this.past.gap : 5;
      chart.update(points, from, now);
    }
  }

  updateStats(now, since) {
    const { rates, totals = {} } = now;
    const percent = now.slots ? `${Math.round((100 * now.used) / now.slots)} %` : "";
    this.stats.rate.update(
      formatRate(rates.finished + rates.failed),
      "",
      since && `${formatShort(totals.finished)} ${since}`,
    );
    this.stats.slots.update(formatShort(now.used), ` / ${formatShort(now.slots)}`, percent);
    this.stats.running.update(formatShort(now.running), "", `${formatShort(now.assigned)} assigned`);
    this.stats.waiting.update(formatShort(now.waiting), "", `${count(now.unfinished, "job")} not ended`);
    const failed = since ? formatShort(totals.failed) : formatRate(rates.failed);
    const again = totals.repeated ? `${formatShort(totals.repeated)} tried again` : since;
    this.stats.failed.update(failed, "", since ? again : "per second");
    this.stats.calls.update(
      formatRate(rates.calls),
      "",
      now.calls_waiting ? `${formatShort(now.calls_waiting)} wait` : "none waits",
    );
  }

  close() {
    this.abort.abort();
    this.past.close();
    for (const part of [this.tasks, this.slots, this.axis]) part?.close();
  }
}
