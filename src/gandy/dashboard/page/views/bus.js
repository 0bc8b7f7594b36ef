// The ensemble: processes, services, who leads, and how well the shared clock is known.

import { getJson, poll } from "../lib/api.js";
import { h, setHidden, setText } from "../lib/dom.js";
import { count, formatMicroseconds } from "../lib/format.js";
import { Chart } from "../ui/chart.js";
import { cell, empty, makeState, panel, Stat, table } from "../ui/pieces.js";

const PERIOD = 2; // seconds
const WINDOW = 900;

export class BusView {
  title = "Bus";

  constructor(app) {
    this.app = app;
    this.abort = new AbortController();
    this.stats = {
      ensemble: new Stat("Ensemble"),
      leader: new Stat("Leads the clock"),
      error: new Stat("Clock error"),
      bound: new Stat("Bound"),
    };
    this.stats.leader.node.classList.add("words");
    this.chart = new Chart({
      title: "Clock error",
      series: [
        { column: 2, colour: "paused" },
        { column: 1, colour: "running", fill: 0.14 },
      ],
      describe: (point) => `${formatMicroseconds(point[1])} of at most ${formatMicroseconds(point[2])}`,
      format: formatMicroseconds,
      gap: 3 * PERIOD + 1,
    });
    this.processes = h("tbody");
    this.services = h("tbody");
    this.nothing = empty(
      "The dashboard takes part in no ensemble. To see one, start it with its name:",
      "gandy dashboard --ensemble NAME",
    );
    this.parts = h(
      "div",
      { class: "stack", hidden: true },
      h(
        "section",
        { class: "stats four", "aria-label": "Numbers" },
        Object.values(this.stats).map(({ node }) => node),
      ),
      panel(null, {}, this.chart.node),
      h(
        "div",
        { class: "pair" },
        panel(
          "Processes",
          { class: "flush" },
          table(
            [
              ["Process", "name"],
              ["State", "kind"],
              ["Services", "name"],
            ],
            this.processes,
            "Processes",
          ),
        ),
        panel(
          "Services",
          { class: "flush" },
          table(
            [
              ["Service", "name"],
              ["Offered by", "name"],
            ],
            this.services,
            "Services",
          ),
        ),
      ),
    );
    this.node = h(
      "div",
      {},
      h("header", { class: "head" }, h("div", { class: "title" }, h("h1", {}, "Bus"))),
      panel(null, { hidden: true }, this.nothing),
      this.parts,
    );
    poll(this.abort.signal, PERIOD, async () => this.show(await getJson("bus", this.abort.signal)));
  }

  show({ ensemble, processes, services, leader, clock }) {
    setHidden(this.parts, ensemble === null);
    setHidden(this.nothing.parentElement, ensemble !== null);
    if (ensemble === null) return;
    this.stats.ensemble.update(ensemble, "", count(processes.length, "process", "processes"));
    this.stats.leader.update(leader ? "yes" : "no", "", leader ?? "nobody leads");
    setText(this.stats.leader.value, leader ? shorten(leader) : "nobody");
    setText(this.stats.leader.about, clock.synced ? "the clock is known" : "the clock is not known yet");
    this.stats.error.update(formatMicroseconds(clock.error_us) || "–");
    this.stats.bound.update(formatMicroseconds(clock.bound_us) || "–");
    const now = clock.points.at(-1)?.[0] ?? this.app.now;
    this.chart.update(clock.points, Math.max(now - WINDOW, Math.min(now - 60, clock.points[0]?.[0] ?? now)), now);
    this.processes.replaceChildren(
      ...processes.map((process) =>
        h(
          "tr",
          {},
          cell("name whole", process.process),
          cell("kind", makeState(process.state === "ok" ? "finished" : "assigned", process.state.replace("_", " "))),
          cell("name whole", (process.services ?? []).join(", ")),
        ),
      ),
    );
    this.services.replaceChildren(
      ...services.map(({ service, process }) => h("tr", {}, cell("name whole", service), cell("name whole", process ?? ""))),
    );
  }

  close() {
    this.abort.abort();
    this.chart.close();
  }
}

/** The part of a process's name that a person can tell apart. */
function shorten(name) {
  return name.length > 22 ? `${name.slice(0, 21)}…` : name;
}
