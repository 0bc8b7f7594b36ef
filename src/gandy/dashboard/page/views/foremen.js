// The foremen of the crew, and their store.

import { getJson, poll } from "../lib/api.js";
import { h } from "../lib/dom.js";
import { count, formatCount, formatSeconds } from "../lib/format.js";
import { compareWords } from "../lib/crew.js";
import { cell, facts, makeState, panel, table } from "../ui/pieces.js";

const PERIOD = 3; // seconds
const COLUMNS = [
  ["Foreman", "name"],
  ["State", "kind"],
  ["Shards", "kind"],
  ["Jobs", "n"],
  ["Lease", "n"],
  ["Last seen", "n opt"],
  ["Version", "kind opt"],
  ["Address", "name opt"],
];

export class ForemenView {
  title = "Foremen";

  constructor(app) {
    this.app = app;
    this.abort = new AbortController();
    this.body = h("tbody");
    this.status = h("div", {}, h("p", { class: "soft" }, "…"));
    this.node = h(
      "div",
      {},
      h("header", { class: "head" }, h("div", { class: "title" }, h("h1", {}, "Foremen and store"))),
      panel("Foremen", { class: "flush" }, table(COLUMNS, this.body, "Foremen")),
      panel("The foreman that is asked", {}, this.status),
    );
    const { signal } = this.abort;
    poll(signal, PERIOD, async () => {
      const [{ foremen }, status] = await Promise.all([getJson("foremen", signal), getJson("status", signal)]);
      const sorted = foremen.sort((one, other) => compareWords(one.name, other.name) || compareWords(one.id, other.id));
      this.body.replaceChildren(...sorted.map(makeRow));
      this.status.replaceChildren(listStatus(status));
    });
  }

  update() {}

  close() {
    this.abort.abort();
  }
}

function makeRow(foreman) {
  const isLate = foreman.lease_seconds <= 0 && foreman.shards.length > 0;
  const state = foreman.is_gone
    ? ["failed", "gone"]
    : foreman.is_leaving
      ? ["assigned", "leaving"]
      : isLate
        ? ["failed", "late"]
        : ["finished", foreman.is_here ? "asked" : "there"];
  const lease = foreman.shards.length ? (isLate ? "expired" : formatSeconds(foreman.lease_seconds)) : "";
  return h(
    "tr",
    {},
    cell("name whole", h("span", { title: foreman.id }, foreman.name, " ", h("span", { class: "soft" }, foreman.id.split("-").at(-1)))),
    cell("kind", makeState(...state)),
    cell("kind", foreman.shards.join(", ")),
    cell("n", formatCount(foreman.jobs)),
    cell("n", lease),
    cell("n opt", foreman.silent_seconds < 1 ? "now" : `${formatSeconds(foreman.silent_seconds)} ago`),
    cell("kind opt", foreman.version),
    cell("name opt whole", foreman.places.join(" or ")),
  );
}

function listStatus(status) {
  return facts([
    ["Store", h("code", {}, status.store)],
    ["Trouble", status.trouble || "none"],
    ["Version", `${status.version}, process ${status.pid}`],
    ["Versions differ", status.versions.length > 1 ? status.versions.join(", ") : ""],
    ["Up for", formatSeconds(status.uptime_seconds)],
    [
      "Listens at",
      h(
        "span",
        {},
        status.listening.flatMap((place) => [h("code", {}, place), " "]),
      ),
    ],
    [
      "Security",
      status.insecure ? `INSECURE: without keys: ${status.insecure_doors.join(" and ")}` : "keys are needed",
    ],
    ["Jobs", `${formatCount(status.jobs)} not ended`],
    ["Set aside", status.unreadable ? `${count(status.unreadable, "job")} that cannot be read` : ""],
    ["Workers", formatCount(status.workers)],
    ["Slots", `${formatCount(status.used)} of ${formatCount(status.slots)} in use`],
  ]);
}
