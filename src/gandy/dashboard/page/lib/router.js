// Addresses of views: `#/jobs/7/tasks/3?stream=err`. Pure, and what a person may share.

const VIEWS = ["jobs", "workers", "calls", "bus", "foremen"];

/** What a hash means: `{view, job?, task?, query}`. Anything unknown is the overview. */
export function parseRoute(hash) {
  const [path, search = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const [view, job, word, task] = path.split("/");
  const query = Object.fromEntries(new URLSearchParams(search));
  if (view === "jobs" && isNumber(job)) {
    if (word === "tasks" && isNumber(task)) return { view: "task", job: Number(job), task: Number(task), query };
    return { view: "job", job: Number(job), query };
  }
  return { view: VIEWS.includes(view) ? view : "overview", query };
}

function isNumber(word) {
  return /^[1-9]\d{0,15}$/.test(word ?? "");
}

export function formatRoute({ view, job, task, query = {} }) {
  const paths = { overview: "", job: `jobs/${job}`, task: `jobs/${job}/tasks/${task}` };
  const kept = Object.entries(query).filter(([, value]) => value !== "" && value !== null && value !== undefined);
  const search = new URLSearchParams(kept).toString();
  return `#/${paths[view] ?? view}${search ? `?${search}` : ""}`;
}

export function linkJob(job) {
  return formatRoute({ view: "job", job });
}

export function linkTask(job, task) {
  return formatRoute({ view: "task", job, task });
}

export function linkCommand(name) {
  return formatRoute({ view: "calls", query: { filter: name } });
}

/** Which tab of the header a view belongs to. */
export function findTab(view) {
  return view === "job" || view === "task" ? "jobs" : view;
}
