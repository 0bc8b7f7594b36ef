// What a task writes, live: the end of it, followed while it grows.

import { h, setText } from "../lib/dom.js";
import { formatBytes } from "../lib/format.js";
import { Live } from "../lib/live.js";
import { cleanOutput, keepEnd } from "../lib/text.js";
import { draw } from "./frames.js";

const MOST = 200_000; // characters that are shown: the end of what was written
const AT_END = 24; // CSS pixels from the end within which a person follows it

export class OutputPane {
  constructor(job, task, stream) {
    this.text = "";
    this.bytes = 0;
    this.isCut = false;
    this.isFollowed = true;
    this.follow = h("input", { type: "checkbox", checked: true, change: () => this.setFollowed(this.follow.checked) });
    this.about = h("span", { class: "soft" }, "…");
    this.box = h("pre", { class: "output", tabindex: "0", "aria-label": `Output of task ${task}` });
    this.box.addEventListener("scroll", () => this.onScroll(), { passive: true });
    this.node = h(
      "div",
      {},
      this.box,
      h("footer", { class: "under" }, this.about, h("label", {}, this.follow, " follow")),
    );
    this.paint = () => this.show();
    this.isOver = false;
    this.live = new Live(
      `jobs/${job}/tasks/${task}/output/events?stream=${stream}`,
      {
        output: (piece) => this.add(piece),
        end: (data) => this.end(data),
      },
      (state) => {
        if (state === "live") this.restart();
      },
    );
  }

  /** A stream that was opened again begins at the beginning. */
  restart() {
    this.text = "";
    this.bytes = 0;
    this.isCut = false;
  }

  add(piece) {
    this.bytes += piece.length;
    const [text, isCut] = keepEnd(this.text + piece, MOST);
    this.text = text;
    this.isCut ||= isCut;
    draw(this.paint);
  }

  end(data) {
    this.isOver = true;
    this.problem = data?.problem ?? "";
    this.live.finish();
    draw(this.paint);
  }

  show() {
    setText(this.box, cleanOutput(this.text));
    this.box.classList.toggle("nothing", !this.text);
    setText(this.about, this.describe());
    if (this.isFollowed) this.box.scrollTop = this.box.scrollHeight;
  }

  describe() {
    if (this.problem) return this.problem;
    if (!this.text) return this.isOver ? "It wrote nothing here." : "Nothing yet.";
    const cut = this.isCut ? ", of which the end is shown" : "";
    return `${formatBytes(this.bytes)}${cut}${this.isOver ? "" : " so far"}`;
  }

  onScroll() {
    const { scrollTop, scrollHeight, clientHeight } = this.box;
    this.isFollowed = scrollHeight - scrollTop - clientHeight < AT_END;
    this.follow.checked = this.isFollowed;
  }

  setFollowed(isFollowed) {
    this.isFollowed = isFollowed;
    draw(this.paint);
  }

  close() {
    this.live.close();
  }
}

/** Standard output and standard error of a task behind two tabs. */
export class Output {
  constructor(job, task, stream = "out") {
    this.job = job;
    this.task = task;
    this.pane = null;
    this.isChosen = false; // by a person
    this.host = h("div");
    this.tabs = ["out", "err"].map((name) =>
      h("button", { type: "button", role: "tab", click: () => this.choose(name) }, `std${name}`),
    );
    this.aside = h("div", { class: "tabs", role: "tablist", "aria-label": "Streams" }, this.tabs);
    this.node = this.host;
    this.open(stream);
  }

  choose(stream) {
    this.isChosen = true;
    this.open(stream);
  }

  open(stream) {
    this.pane?.close();
    this.stream = stream;
    this.pane = new OutputPane(this.job, this.task, stream);
    this.host.replaceChildren(this.pane.node);
    this.tabs.forEach((tab, index) => tab.setAttribute("aria-selected", stream === ["out", "err"][index]));
  }

  close() {
    this.pane?.close();
  }
}
