// A worker with its slots as lanes, and how it is: load, memory, version, link.

import { h, setAttribute, setHidden, setText } from "../lib/dom.js";
import { count, formatBytes, formatSeconds } from "../lib/format.js";
import { WorkerActions } from "./actions.js";
import { Lanes } from "./lanes.js";
import { State } from "./pieces.js";

const MARKS = { ready: "finished", draining: "assigned", short: "paused", absent: "failed" };

export class WorkerRow {
  constructor(app, worker, { onPoint, onOpen }) {
    this.name = h("b");
    this.state = new State();
    this.used = h("span", { class: "soft" });
    this.health = h("span", { class: "soft load" });
    this.about = h("span", { class: "soft" });
    this.problem = h("span", { class: "problem", hidden: true });
    this.actions = new WorkerActions(app);
    this.lanes = new Lanes({ onPoint, onOpen, label: `Slots of ${worker.name}` });
    this.node = h(
      "li",
      { class: "worker" },
      h(
        "div",
        { class: "who" },
        h("p", {}, this.name, this.state.node),
        h("p", {}, this.used),
        h("p", {}, this.health),
        h("p", {}, this.about, this.actions.node),
        this.problem,
      ),
      this.lanes.node,
    );
  }

  update({ worker, spans, calls, from, to }) {
    setText(this.name, worker.name);
    setAttribute(this.name, "title", worker.id);
    const isSilent = worker.state === "ready" && worker.silent_seconds;
    this.state.update(
      isSilent ? "paused" : MARKS[worker.state],
      isSilent ? `silent ${formatSeconds(worker.silent_seconds)}` : worker.state,
    );
    setText(this.used, describeUse(worker));
    setText(this.health, describeHealth(worker));
    const about = [worker.version, ...worker.tags, worker.knows_time && "shared time"].filter(Boolean).join(" · ");
    setText(this.about, about);
    setAttribute(this.about, "title", about);
    this.actions.update(worker);
    setHidden(this.problem, !worker.problem);
    setText(this.problem, worker.problem);
    const maxCalls = calls.length ? Math.max(worker.slots, 1) : 0;
    this.lanes.update({ spans, lanes: Math.max(worker.slots, 1), from, to, calls, maxCalls });
  }

  close() {
    this.lanes.close();
  }
}

function describeUse({ used, slots, waiting, calls }) {
  const words = [`${used} of ${slots} slots`];
  if (waiting) words.push(`${waiting} assigned`);
  if (calls) words.push(count(calls, "call"));
  return words.join(", ");
}

/** Load and memory of its machine, if the worker says them. */
export function describeHealth({ load, cores, memory_bytes: used, memory_total_bytes: all }) {
  const words = [];
  if (load !== null && load !== undefined)
    words.push(`load ${load.toFixed(1)}${cores ? ` / ${count(cores, "core")}` : ""}`);
  if (used) words.push(`${formatBytes(used)}${all ? ` / ${formatBytes(all)}` : ""}`);
  return words.join(", ");
}
