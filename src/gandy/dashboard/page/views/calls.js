// Commands that workers offer, and how fast calls of them are answered.

import { compareWords } from "../lib/crew.js";
import { h, Rows, setHidden, setText } from "../lib/dom.js";
import { formatCount, formatMicroseconds, formatRate } from "../lib/format.js";
import { matches } from "../lib/text.js";
import { Sparkline } from "../ui/chart.js";
import { empty, panel, Stat, table } from "../ui/pieces.js";

const COLUMNS = [
  ["Command", "name"],
  ["Workers", "n opt"],
  ["Waiting", "n opt"],
  ["Calls", "n opt"],
  ["Failed", "n opt"],
  ["Per second", "n"],
  ["The last two minutes", "spark opt"],
  ["p50", "n"],
  ["p99", "n"],
  ["p99 over time", "spark opt"],
];

export class CallsView {
  title = "Calls";

  constructor(app, route) {
    this.app = app;
    this.stats = { rate: new Stat("Calls per second"), waiting: new Stat("Waiting"), total: new Stat("Answered") };
    this.field = h("input", {
      type: "search",
      placeholder: "Filter  ( / )",
      "aria-label": "Filter",
      input: () => this.update(),
    });
    this.field.value = route.query.filter ?? "";
    this.body = h("tbody");
    this.table = table(COLUMNS, this.body, "Commands");
    this.nothing = empty("No worker offers a command. To try one, start a worker and type", "gandy call ping");
    this.node = h(
      "div",
      {},
      h("header", { class: "head" }, h("div", { class: "title" }, h("h1", {}, "Calls"), this.field)),
      h(
        "section",
        { class: "stats three", "aria-label": "Numbers" },
        Object.values(this.stats).map(({ node }) => node),
      ),
      panel(null, { class: "flush" }, this.table, this.nothing),
    );
    this.rows = new Rows(
      this.body,
      ({ name }) => name,
      () => this.makeRow(),
    );
  }

  makeRow() {
    const cells = Object.fromEntries(COLUMNS.map(([words, kind]) => [words, h("td", { class: kind })]));
    const rate = new Sparkline(1, "running");
    const slow = new Sparkline(3, "paused");
    cells["The last two minutes"].append(rate.node);
    cells["p99 over time"].append(slow.node);
    const update = (command) => {
      setText(cells.Command, command.name);
      setText(cells.Workers, formatCount(command.workers));
      setText(cells.Waiting, command.waiting ? formatCount(command.waiting) : "");
      setText(cells.Calls, formatCount(command.ended));
      setText(cells.Failed, command.failed ? formatCount(command.failed) : "");
      setText(cells["Per second"], formatRate(command.rate));
      setText(cells.p50, formatMicroseconds(command.p50_us));
      setText(cells.p99, formatMicroseconds(command.p99_us));
      const points = this.app.crew.commandPoints.get(command.name) ?? [];
      rate.update(points);
      slow.update(points);
    };
    return {
      node: h("tr", {}, Object.values(cells)),
      update,
      close: () => {
        rate.close();
        slow.close();
      },
    };
  }

  update() {
    const { crew } = this.app;
    if (!crew.isKnown) return;
    const { rates, totals, calls_waiting: waiting } = crew.now;
    this.stats.rate.update(formatRate(rates.calls));
    this.stats.waiting.update(formatCount(waiting));
    this.stats.total.update(formatCount(totals.calls), "", "since you look");
    const commands = [...crew.commands.values()].filter(({ name }) => matches(this.field.value, name));
    commands.sort((one, other) => other.rate - one.rate || compareWords(one.name, other.name));
    this.rows.update(commands);
    setHidden(this.nothing, commands.length > 0);
    setHidden(this.table, commands.length === 0);
  }

  close() {
    this.rows.update([]);
  }
}
