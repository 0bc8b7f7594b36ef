// All workers: what runs in each slot now and in the last minutes, and how each is.

import { compareWords } from "../lib/crew.js";
import { h, Rows, setHidden, setText } from "../lib/dom.js";
import { count, formatCount } from "../lib/format.js";
import { linkCommand, linkTask } from "../lib/router.js";
import { matches } from "../lib/text.js";
import { WorkerRow } from "../ui/workerrow.js";
import { draw } from "../ui/frames.js";
import { TimeScale } from "../ui/lanes.js";
import { empty } from "../ui/pieces.js";
import { describeSpan } from "../ui/summary.js";

const SECONDS = 120; // that lanes show
const PAGE = 40;
const HINT = "A colour for each job and command; calls are thinner, and short ones below; red failed.";
const FRAME = 66; // milliseconds between two pictures: they move a pixel or less

const ORDERS = {
  name: (one, other) => compareWords(one.name, other.name),
  state: (one, other) => compareWords(one.state, other.state) || other.silent_seconds - one.silent_seconds,
  busy: (one, other) => other.used / (other.slots || 1) - one.used / (one.slots || 1),
  slots: (one, other) => other.slots - one.slots,
  load: (one, other) => (other.load ?? -1) - (one.load ?? -1),
  memory: (one, other) => (other.memory_bytes ?? -1) - (one.memory_bytes ?? -1),
};

export class WorkersView {
  title = "Workers";

  constructor(app, route) {
    this.app = app;
    this.shown = PAGE;
    this.field = h("input", {
      type: "search",
      placeholder: "Filter by name, tag, state  ( / )",
      "aria-label": "Filter",
      input: () => this.goTo({ filter: this.field.value }),
    });
    this.order = h(
      "select",
      { "aria-label": "Order", change: () => this.goTo({ order: this.order.value }) },
      Object.keys(ORDERS).map((name) => h("option", { value: name }, `by ${name}`)),
    );
    this.summary = h("span", { class: "soft" });
    this.readout = h("output", { class: "readout" }, HINT);
    this.scale = new TimeScale();
    this.list = h("ul", { class: "workers" });
    this.more = h(
      "button",
      {
        type: "button",
        hidden: true,
        click: () => {
          this.shown += PAGE;
          this.update();
        },
      },
      "More workers",
    );
    this.nothing = empty("No workers. To start one on this machine, type", "gandy worker run");
    this.node = h(
      "div",
      {},
      h(
        "header",
        { class: "head" },
        h("div", { class: "title" }, h("h1", {}, "Workers"), this.summary, this.order, this.field),
      ),
      h(
        "section",
        { class: "panel" },
        h("header", {}, h("h2", {}, "The last two minutes"), this.readout),
        this.list,
        h("div", { class: "worker" }, h("span"), this.scale.node),
        this.nothing,
      ),
      h("p", { class: "more" }, this.more),
    );
    this.rows = new Rows(
      this.list,
      ({ worker }) => worker.id,
      ({ worker }) => this.makeRow(worker),
    );
    this.onRoute(route);
    this.timer = setInterval(() => {
      if (!document.hidden) draw(this.paint);
    }, FRAME);
  }

  paint = () => this.update();

  accepts({ view }) {
    return view === "workers";
  }

  onRoute({ query }) {
    this.query = query;
    if (this.field.value !== (query.filter ?? "")) this.field.value = query.filter ?? "";
    this.order.value = query.order in ORDERS ? query.order : "name";
    this.update();
  }

  goTo(query) {
    const order = query.order ?? this.query.order;
    this.app.go({ view: "workers", query: { ...this.query, ...query, order: order === "name" ? null : order } }, true);
  }

  makeRow(worker) {
    return new WorkerRow(this.app, worker, {
      onPoint: (span) => setText(this.readout, span ? describeSpan(span) : HINT),
      onOpen: (span) => {
        location.hash = span.command === undefined ? linkTask(span.job, span.task) : linkCommand(span.command);
      },
    });
  }

  update() {
    const { crew, now } = this.app;
    const all = [...crew.workers.values()];
    const found = all.filter((worker) =>
      matches(this.query.filter ?? "", worker.name, worker.state, worker.version, worker.tags),
    );
    found.sort((one, other) => ORDERS[this.order.value](one, other) || ORDERS.name(one, other));
    const spans = crew.listSpans();
    const from = now - SECONDS;
    this.rows.update(
      found.slice(0, this.shown).map((worker) => ({
        worker,
        spans: spans.get(worker.id) ?? [],
        calls: crew.workerCalls.get(worker.id) ?? [],
        from,
        to: now,
      })),
    );
    this.scale.update(from, now);
    setText(
      this.summary,
      `${count(found.length, "worker")}${found.length < all.length ? ` of ${formatCount(all.length)}` : ""}, ${count(
        found.reduce((sum, { slots }) => sum + slots, 0),
        "slot",
      )}`,
    );
    setHidden(this.more, found.length <= this.shown);
    setHidden(this.nothing, all.length > 0 || !crew.isKnown);
  }

  close() {
    clearInterval(this.timer);
    this.rows.update([]);
    this.scale.close();
  }
}
