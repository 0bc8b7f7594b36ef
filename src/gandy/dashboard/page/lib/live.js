// A stream of events that comes back: after errors with growing pauses, and not while the tab is hidden.

const FIRST_PAUSE = 1; // seconds
const LONGEST_PAUSE = 15;
const HIDDEN_GRACE = 5; // seconds for which a hidden tab keeps its streams, so that a glance elsewhere costs nothing

/**
 * `handlers` by name of event, each called with the parsed data.
 * `onState(state, until)`: "live", "paused", or "lost" until the next try.
 */
export class Live {
  constructor(path, handlers, onState = () => {}) {
    this.path = path;
    this.handlers = handlers;
    this.onState = onState;
    this.pause = FIRST_PAUSE;
    this.source = null;
    this.timer = null;
    this.isDone = false;
    this.onVisible = () => this.look();
    document.addEventListener("visibilitychange", this.onVisible);
    this.look();
  }

  look() {
    clearTimeout(this.timer);
    if (this.isDone) return;
    if (!document.hidden && this.source === null) this.open();
    else if (document.hidden) this.timer = setTimeout(() => this.rest(), HIDDEN_GRACE * 1000);
  }

  rest() {
    this.drop();
    this.onState("paused");
  }

  open() {
    clearTimeout(this.timer);
    this.drop();
    const source = (this.source = new EventSource(`api/${this.path}`));
    for (const [name, handle] of Object.entries(this.handlers)) {
      source.addEventListener(name, (event) => {
        this.pause = FIRST_PAUSE;
        handle(event.data === "" ? null : JSON.parse(event.data));
      });
    }
    source.addEventListener("open", () => this.onState("live"));
    source.addEventListener("error", () => this.fail(source));
  }

  fail(source) {
    if (source !== this.source) return;
    this.drop();
    if (document.hidden) return;
    this.onState("lost", Date.now() / 1000 + this.pause);
    this.timer = setTimeout(() => this.open(), this.pause * 1000);
    this.pause = Math.min(this.pause * 2, LONGEST_PAUSE);
  }

  /** The server has said everything, until `restart`. */
  finish() {
    this.isDone = true;
    this.drop();
  }

  restart() {
    this.isDone = false;
    this.look();
  }

  drop() {
    this.source?.close();
    this.source = null;
  }

  close() {
    clearTimeout(this.timer);
    document.removeEventListener("visibilitychange", this.onVisible);
    this.drop();
  }
}
