// The states of a job's tasks: a byte for each. Pure, but for the decompression, which the browser does.

/** Names by number, as `core.model.TaskState` has them. */
export const STATES = ["waiting", "running", "finished", "failed", "cancelled", "assigned"];

/** In the order in which a task goes through them. */
export const IN_ORDER = ["waiting", "assigned", "running", "finished", "failed", "cancelled"];

/** Which of several tasks is shown if they share a pixel: what needs attention first. By number of the state. */
export const WEIGHTS = [1, 4, 0, 5, 2, 3];

/** States as they were packed by zlib and base64. */
export async function unpack(text) {
  const packed = Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Uint8Array(await new Response(stream).arrayBuffer());
}

export class TaskStates {
  constructor() {
    this.bytes = new Uint8Array(0);
    this.counts = new Array(STATES.length).fill(0);
  }

  get length() {
    return this.bytes.length;
  }

  replace(bytes) {
    this.bytes = bytes;
    this.counts.fill(0);
    for (const state of bytes) this.counts[state] += 1;
  }

  /** Apply runs `[first, last, state]`, whose tasks count from 1. Tasks that are new wait. */
  change(tasks, runs) {
    if (tasks !== this.bytes.length) this.resize(tasks);
    for (const [first, last, state] of runs) {
      for (let task = first - 1; task < last; task += 1) this.counts[this.bytes[task]] -= 1;
      this.bytes.fill(state, first - 1, last);
      this.counts[state] += last - first + 1;
    }
  }

  resize(tasks) {
    const bytes = new Uint8Array(tasks);
    bytes.set(this.bytes.subarray(0, tasks));
    this.replace(bytes);
  }

  /** The state of a group of tasks, from the one with this index on. */
  findHeaviest(begin, size) {
    let found = this.bytes[begin];
    for (let task = begin + 1; task < Math.min(begin + size, this.bytes.length); task += 1) {
      if (WEIGHTS[this.bytes[task]] > WEIGHTS[found]) found = this.bytes[task];
    }
    return found;
  }

  /** The next task in this state behind one, or 0. */
  findNext(name, after = 0) {
    const state = STATES.indexOf(name);
    return this.bytes.indexOf(state, after) + 1;
  }
}
