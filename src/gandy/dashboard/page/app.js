// Starts the page: who looks, the stream of the crew, the views, and the header around them.

import { ApiError, getJson } from "./lib/api.js";
import { onTheme, isDark, switchTheme } from "./lib/colours.js";
import { Crew } from "./lib/crew.js";
import { h, setAttribute, setText } from "./lib/dom.js";
import { Live } from "./lib/live.js";
import { findTab, formatRoute, parseRoute } from "./lib/router.js";
import { showKeys } from "./ui/ask.js";
import { Banner } from "./ui/banner.js";
import { draw } from "./ui/frames.js";
import { listenForKeys } from "./ui/keys.js";
import { TroubleNews } from "./ui/trouble.js";
import { BusView } from "./views/bus.js";
import { CallsView } from "./views/calls.js";
import { ForemenView } from "./views/foremen.js";
import { JobView } from "./views/job.js";
import { JobsView } from "./views/jobs.js";
import { Overview } from "./views/overview.js";
import { TaskView } from "./views/task.js";
import { WorkersView } from "./views/workers.js";

const VIEWS = {
  overview: Overview,
  jobs: JobsView,
  job: JobView,
  task: TaskView,
  workers: WorkersView,
  calls: CallsView,
  bus: BusView,
  foremen: ForemenView,
};

class App {
  constructor(session) {
    this.session = session;
    this.crew = new Crew();
    this.banner = new Banner(() => this.live.open());
    this.news = new TroubleNews();
    this.view = null;
    this.received = 0; // when the last event came, by the clock of this page
    this.paint = () => this.update();
    addEventListener("hashchange", () => this.open());
    this.open();
    this.live = new Live(
      "crew/events",
      {
        crew: (whole) => this.receive(() => this.crew.replace(whole)),
        change: (part) => this.receive(() => this.crew.change(part)),
      },
      (state, until) => this.onLink(state, until),
    );
    this.listen();
  }

  listen() {
    const theme = document.getElementById("theme");
    const show = () => {
      theme.dataset.theme = isDark() ? "dark" : "light";
    };
    theme.addEventListener("click", switchTheme);
    document.getElementById("help").addEventListener("click", showKeys);
    onTheme(show);
    show();
    listenForKeys({
      openParent: () => this.openParent(),
      openNow: () => {
        if (this.route.query.at) this.go({ ...this.route, query: { ...this.route.query, at: null } });
      },
    });
  }

  onLink(state, until) {
    this.banner.onLink(state, until);
    if (state === "lost")
      getJson("session").catch((error) => {
        if (error.status === 401) this.end(error);
      });
  }

  /** The dashboard has started anew, and does not know this browser. */
  end(error) {
    this.live.close();
    this.view.close();
    this.banner.onLink("paused");
    refuse(error);
  }

  receive(apply) {
    apply();
    this.received = performance.now();
    draw(this.paint);
  }

  /** What time it is for the crew: the server's clock, carried on by the page's. */
  get now() {
    return this.crew.isKnown
      ? this.crew.now.at + Math.min(60, (performance.now() - this.received) / 1000)
      : Date.now() / 1000;
  }

  get canChange() {
    return this.session.can_change;
  }

  update() {
    this.banner.onCrew(this.crew.now);
    this.news.update(this.crew.now.trouble);
    this.view?.update?.();
  }

  /** Show what the address says. A view that can show it stays. */
  open() {
    const route = parseRoute(location.hash);
    const before = this.route;
    this.route = route;
    if (before && this.view.accepts?.(route)) return this.view.onRoute(route);
    this.view?.close();
    const content = document.getElementById("content");
    this.view = new VIEWS[route.view](this, route);
    content.replaceChildren(this.view.node);
    content.dataset.view = route.view;
    this.mark(route);
    this.update();
    scrollTo(0, 0);
    if (before) content.focus({ preventScroll: true });
  }

  mark({ view }) {
    for (const link of document.querySelectorAll("nav [data-view]")) {
      setAttribute(link, "aria-current", link.dataset.view === findTab(view) ? "page" : null);
    }
    document.title = `${this.view.title} · gandy`;
  }

  go(route, replace = false) {
    if (replace) {
      history.replaceState(null, "", formatRoute(route));
      this.open();
    } else {
      location.hash = formatRoute(route);
    }
  }

  openParent() {
    const { view, job } = this.route;
    this.go(view === "task" ? { view: "job", job } : view === "job" ? { view: "jobs" } : { view: "overview" });
  }
}

async function start() {
  try {
    window.gandy = new App(await getJson("session")); // for tests, and for the curious
  } catch (error) {
    if (!(error instanceof ApiError)) throw error;
    refuse(error);
  }
}

function refuse(error) {
  const isKey = error.status === 401 || error.status === 403;
  setText(document.querySelector("#link b"), isKey ? "no key" : "no answer");
  document
    .getElementById("content")
    .replaceChildren(
      h(
        "section",
        { class: "panel empty" },
        h("h1", {}, isKey ? "This browser has no key" : "The dashboard does not answer"),
        h("p", {}, isKey ? "Open the address that this command prints:" : error.message),
        h("code", { class: "type" }, "gandy dashboard"),
        h("p", {}, h("button", { type: "button", click: () => location.reload() }, "Try again")),
      ),
    );
}

start();
