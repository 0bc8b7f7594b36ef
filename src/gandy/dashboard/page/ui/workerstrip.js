// All workers as small meters, for the overview: how many slots each uses, and which ones need attention.

import { h, Rows, setAttribute, setHidden, setStyle, setText } from "../lib/dom.js";
import { count } from "../lib/format.js";

const SHOWN = 96;

export class WorkerStrip {
  constructor() {
    this.list = h("ul", { class: "strip" });
    this.more = h("p", { class: "soft more", hidden: true });
    this.node = h("div", {}, this.list, this.more);
    this.rows = new Rows(this.list, (worker) => worker.id, makeMeter);
  }

  update(workers) {
    const sorted = workers.length > SHOWN ? [...workers].sort((one, other) => isWell(one) - isWell(other)) : workers;
    this.rows.update(sorted.slice(0, SHOWN));
    setHidden(this.more, workers.length <= SHOWN);
    if (workers.length > SHOWN) setText(this.more, `and ${count(workers.length - SHOWN, "more", "more")}`);
    setAttribute(this.list, "data-many", workers.length > 24);
  }
}

function isWell(worker) {
  return worker.state === "ready" && !worker.silent_seconds;
}

function makeMeter() {
  const name = h("span", { class: "name" });
  const used = h("span", { class: "used" });
  const link = h("a", { href: "" }, name, h("i"), used);
  const node = h("li", {}, link);
  return {
    node,
    update(worker) {
      const words = worker.state === "ready" ? `${worker.used} / ${worker.slots}` : worker.state;
      setText(name, worker.name);
      setText(used, words);
      setStyle(node, "--part", `${worker.slots ? Math.min(100, (100 * worker.used) / worker.slots).toFixed(1) : 0}%`);
      setAttribute(node, "data-state", isWell(worker) ? "ready" : worker.state === "ready" ? "silent" : worker.state);
      setAttribute(link, "href", `#/workers?filter=${encodeURIComponent(worker.name)}`);
      setAttribute(link, "title", `${worker.name}: ${words}${worker.problem ? `, ${worker.problem}` : ""}`);
    },
  };
}
