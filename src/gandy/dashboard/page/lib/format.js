// Formats numbers, times and words for people. Pure.

const NUMBER = new Intl.NumberFormat("en");
const UNITS = ["B", "kB", "MB", "GB", "TB", "PB"];
const STEPS = [
  [86400, "d"],
  [3600, "h"],
  [60, "min"],
];

export function formatCount(count) {
  return NUMBER.format(count);
}

/** A count that fits a narrow place: 1.2 k, 35 k, 4.1 M. */
export function formatShort(count) {
  if (count < 10_000) return NUMBER.format(Math.round(count));
  for (const [size, unit] of [
    [1e9, "G"],
    [1e6, "M"],
    [1e3, "k"],
  ]) {
    if (count >= size) return `${trim(count / size)} ${unit}`;
  }
}

function trim(value) {
  return value < 9.95 ? value.toFixed(1).replace(".0", "") : NUMBER.format(Math.round(value));
}

/** How many in a second. */
export function formatRate(rate) {
  if (!rate) return "0";
  if (rate < 0.095) return rate < 0.0015 ? `${(rate * 3600).toFixed(1)}/h` : `${(rate * 60).toFixed(1)}/min`;
  return rate < 9.95 ? rate.toFixed(1) : formatShort(rate);
}

/** Seconds in the two largest units: 850 ms, 3.4 s, 2 min 5 s, 3 h 20 min. */
export function formatSeconds(seconds) {
  if (seconds === null || seconds === undefined) return "";
  if (seconds < 0.9995e-3) return `${Math.round(seconds * 1e6)} µs`;
  if (seconds < 0.9995) return `${Number((seconds * 1e3).toPrecision(3))} ms`;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  const whole = Math.round(seconds);
  if (whole < 60) return `${whole} s`;
  const [size, unit] = STEPS.find(([step]) => whole >= step);
  const lower = STEPS[STEPS.findIndex(([step]) => step === size) + 1] ?? [1, "s"];
  const rest = Math.floor((whole % size) / lower[0]);
  return `${Math.floor(whole / size)} ${unit}${rest ? ` ${rest} ${lower[1]}` : ""}`;
}

/** Seconds that are left: never a part of one, which would flicker. */
export function formatLeft(seconds) {
  if (seconds === null || seconds === undefined) return "";
  const whole = Math.max(1, Math.ceil(seconds));
  return whole < 60 ? `${whole} s` : formatSeconds(whole);
}

export function formatMicroseconds(us) {
  return us === null || us === undefined ? "" : formatSeconds(us / 1e6);
}

export function formatBytes(bytes) {
  if (bytes === null || bytes === undefined) return "";
  let size = bytes;
  let unit = 0;
  while (size >= 999.5 && unit < UNITS.length - 1) {
    size /= 1000;
    unit += 1;
  }
  return `${unit && size < 9.95 ? size.toFixed(1) : Math.round(size)} ${UNITS[unit]}`;
}

/** How long ago a moment was. */
export function formatAge(at, now) {
  if (!at) return "";
  const age = now - at;
  return age < 5 ? "just now" : `${formatSeconds(age < 60 ? age : roundAge(age))} ago`;
}

function roundAge(age) {
  const step = age < 3600 ? 60 : age < 86400 ? 600 : 3600;
  return Math.floor(age / step) * step;
}

const CLOCK = { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" };
const DAY = { weekday: "short", day: "numeric", month: "short" };

/** The time of the day: 14:03:07. */
export function formatClock(at, withSeconds = true) {
  const options = withSeconds ? CLOCK : { ...CLOCK, second: undefined };
  return new Date(at * 1000).toLocaleTimeString("en-GB", options);
}

export function formatDay(at) {
  return new Date(at * 1000).toLocaleDateString("en-GB", DAY);
}

export function formatMoment(at) {
  return at ? `${formatDay(at)}, ${formatClock(at)}` : "";
}

export function formatPercent(part, whole) {
  if (!whole) return "0 %";
  const percent = (100 * part) / whole;
  if (percent > 99 && percent < 100) return `${(Math.floor(percent * 10) / 10).toFixed(1)} %`;
  return `${percent > 0 && percent < 1 ? percent.toFixed(1) : Math.floor(percent)} %`;
}

/** "1 task", "2,000 tasks". */
export function count(number, word, words = `${word}s`) {
  return `${formatCount(number)} ${number === 1 ? word : words}`;
}

/** A command on one line. */
export function formatCommand(command) {
  return Array.isArray(command) ? command.map(quote).join(" ") : (command ?? "");
}

function quote(word) {
  return /^[\w@%+=:,./{}-]+$/.test(word) ? word : `'${word.replaceAll("'", `'"'"'`)}'`;
}

const CAUSES = {
  timeout: "took too long and was killed",
  cancelled: "cancelled",
  not_started: "could not start",
  worker_lost: "lost with its worker",
  worker_stopped: "its worker was stopped",
  returned: "given back before it began",
  raised: "raised an exception",
  not_retried: "raised an exception that is not retried",
  memory: "used too much memory and was killed",
};

/** How an attempt ended, in words. */
export function describeEnding({ cause, exit_code: code, signal }) {
  if (!cause) return "";
  if (cause === "exit") return `exit code ${code}`;
  if (cause === "signal") return `killed by signal ${signal}`;
  return CAUSES[cause] ?? cause.replaceAll("_", " ");
}
