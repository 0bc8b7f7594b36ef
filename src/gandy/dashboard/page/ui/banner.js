// Says when what is shown is not current: in the header, and in a banner with a way to try again.

import { h, setHidden, setText } from "../lib/dom.js";

const WORDS = { connecting: "connecting", live: "live", paused: "paused", lost: "not connected", late: "not current" };

export class Banner {
  constructor(retry) {
    this.node = document.getElementById("banner");
    this.mark = document.getElementById("link");
    this.words = h("span");
    this.node.replaceChildren(this.words, h("button", { type: "button", click: retry }, "Try now"));
    this.state = "connecting";
    this.problem = "";
    this.timer = null;
  }

  /** The stream is live, paused or lost; if lost, it tries again at `until`. */
  onLink(state, until = 0) {
    clearInterval(this.timer);
    this.state = state;
    this.until = until;
    if (state === "lost") this.timer = setInterval(() => this.show(), 1000);
    this.show();
  }

  /** The dashboard's own link to the foreman may be broken. */
  onCrew(crew) {
    if (crew.problem === this.problem) return;
    this.problem = crew.problem ?? "";
    this.show();
  }

  show() {
    const shown = this.state === "live" && this.problem ? "late" : this.state;
    this.mark.dataset.state = shown;
    setText(this.mark.lastElementChild, WORDS[shown]);
    const left = Math.max(0, Math.ceil(this.until - Date.now() / 1000));
    if (shown === "lost") {
      setText(
        this.words,
        `The connection to the dashboard is lost. ${left ? `Next try in ${left} s.` : "Trying now …"}`,
      );
    } else if (shown === "late") {
      setText(this.words, `What you see may be old: ${this.problem}`);
    }
    setHidden(this.node, shown !== "lost" && shown !== "late");
    setHidden(this.node.lastElementChild, shown !== "lost");
  }
}
