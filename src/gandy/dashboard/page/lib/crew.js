// What the page knows of the crew, from the server's events. Pure: it draws nothing and asks nothing.

const SPAN_SECONDS = 180; // attempts that ended earlier are dropped
const MAX_SPANS = 12_000;
const MAX_CALLS = 6_000;
const MAX_POINTS = 900; // a quarter of an hour
const MAX_CALL_POINTS = 240; // of one worker
const LISTS = new Set(["jobs", "workers", "commands", "spans", "calls", "points"]);
const ENDED = new Set(["finished", "failed", "cancelled"]);

export class Crew {
  constructor() {
    this.now = { trouble: [], rates: {}, totals: {} }; // everything that is not a list of many
    this.jobs = new Map();
    this.workers = new Map();
    this.commands = new Map();
    this.running = new Map(); // spans by attempt
    this.ended = []; // spans, in the order in which they ended
    this.runningCalls = new Map(); // calls by worker, number and lane
    this.endedCalls = []; // in the order in which they ended
    this.points = [];
    this.commandPoints = new Map(); // by command: [at, rate, p50, p99]
    this.workerCalls = new Map(); // by worker: [at, calls in progress]
    this.isKnown = false;
  }

  /** Everything is like this. */
  replace(whole) {
    this.jobs = index(whole.jobs, "job");
    this.workers = index(whole.workers, "id");
    this.commands = index(whole.commands, "name");
    this.running = new Map();
    this.ended = [];
    this.runningCalls = new Map();
    this.endedCalls = [];
    this.points = whole.points;
    this.isKnown = true;
    this.apply(whole);
  }

  /** Only this has changed. */
  change(part) {
    for (const job of part.jobs) this.jobs.set(job.job, job);
    for (const worker of part.workers) this.workers.set(worker.id, worker);
    for (const command of part.commands) this.commands.set(command.name, command);
    for (const job of part.forgotten ?? []) this.jobs.delete(job);
    for (const id of part.left ?? []) this.workers.delete(id);
    for (const name of part.gone_commands ?? []) this.commands.delete(name);
    this.points = this.points.concat(part.points).slice(-MAX_POINTS);
    this.apply(part);
  }

  apply(part) {
    this.now = Object.fromEntries(Object.entries(part).filter(([name]) => !LISTS.has(name)));
    for (const span of part.spans)
      place(span, `${span.job}/${span.task}/${span.attempt}`, this.running, this.ended);
    for (const call of part.calls)
      place(call, `${call.worker}/${call.number}/${call.lane}`, this.runningCalls, this.endedCalls);
    if (part.points.length) this.note(part.at);
    this.ended = dropOld(this.ended, part.at, MAX_SPANS);
    this.endedCalls = dropOld(this.endedCalls, part.at, MAX_CALLS);
  }

  /** Once a second: how commands and calls of workers stand. */
  note(at) {
    for (const command of this.commands.values()) {
      append(this.commandPoints, command.name, [at, command.rate, command.p50_us, command.p99_us], MAX_POINTS);
    }
    for (const worker of this.workers.values()) {
      const before = this.workerCalls.get(worker.id);
      if (worker.calls || before) append(this.workerCalls, worker.id, [at, worker.calls], MAX_CALL_POINTS);
    }
  }

  /** Jobs for a table: those that go on first, then the newest. */
  listJobs() {
    return [...this.jobs.values()].sort((one, other) => isOver(one) - isOver(other) || other.job - one.job);
  }

  listWorkers() {
    return [...this.workers.values()].sort((one, other) => compareWords(one.name, other.name));
  }

  /** Attempts and calls by worker; of each kind, those that have ended come first, in the order in which they did. */
  listSpans() {
    const found = new Map();
    for (const spans of [this.ended, this.endedCalls, this.running.values(), this.runningCalls.values()]) {
      for (const span of spans) {
        if (!found.has(span.worker)) found.set(span.worker, []);
        found.get(span.worker).push(span);
      }
    }
    return found;
  }
}

function place(span, key, running, ended) {
  if (span.ended === null) {
    running.set(key, span);
  } else {
    running.delete(key);
    ended.push(span);
  }
}

function dropOld(ended, at, most) {
  let old = Math.max(0, ended.length - most);
  while (old < ended.length && ended[old].ended < at - SPAN_SECONDS) old += 1;
  return old > ended.length / 4 ? ended.slice(old) : ended;
}

export function isOver(job) {
  return ENDED.has(job.state);
}

/** Compare names as people do: w2 comes before w10. */
export const compareWords = new Intl.Collator("en", { numeric: true }).compare;

function index(rows, key) {
  return new Map(rows.map((row) => [row[key], row]));
}

function append(table, key, point, most) {
  const points = table.get(key) ?? [];
  points.push(point);
  if (points.length > most) points.splice(0, points.length - most);
  table.set(key, points);
}

/** Why tasks wait, from what the picture alone tells: `[{tasks, why, job?}]`, the largest first. */
export function listReasons(crew) {
  const groups = new Map();
  const connected = [...crew.workers.values()].some((worker) => worker.state !== "absent");
  const isFull = crew.now.used >= crew.now.slots;
  for (const job of crew.jobs.values()) {
    if (!job.waiting || isOver(job)) continue;
    const why = job.held || job.state === "paused" ? "held" : !connected ? "worker" : isFull ? "slots" : "other";
    const group = groups.get(why) ?? { why, tasks: 0, jobs: [] };
    group.tasks += job.waiting;
    group.jobs.push(job.job);
    groups.set(why, group);
  }
  return [...groups.values()].sort((one, other) => other.tasks - one.tasks);
}
