// Asks the server: JSON in, JSON out. A refusal becomes an ApiError with the server's words.

export class ApiError extends Error {
  constructor(status, kind, message) {
    super(message);
    this.status = status;
    this.kind = kind;
  }
}

export function isAborted(error) {
  return error.name === "AbortError";
}

async function request(path, options) {
  let response;
  try {
    response = await fetch(`api/${path}`, { credentials: "same-origin", ...options });
  } catch (error) {
    if (isAborted(error)) throw error;
    throw new ApiError(0, "unreachable", "The dashboard does not answer.");
  }
  if (!response.ok) throw await readError(response);
  return response;
}

async function readError(response) {
  try {
    const { kind, message } = (await response.json()).error;
    return new ApiError(response.status, kind, message);
  } catch {
    return new ApiError(response.status, "unknown", `The dashboard answered ${response.status}.`);
  }
}

export async function getJson(path, signal) {
  return (await request(path, { signal })).json();
}

export async function post(path, body = {}) {
  const headers = { "Content-Type": "application/json", "X-Gandy": "1" };
  return (await request(path, { method: "POST", headers, body: JSON.stringify(body) })).json();
}

/** Ask again and again while the tab is visible: `seconds` after each answer, until `signal` aborts. */
export async function poll(signal, seconds, ask) {
  while (!signal.aborted) {
    if (!document.hidden) await ask().catch(ignoreErrors);
    await pause(seconds, signal);
  }
}

function ignoreErrors(error) {
  if (!isAborted(error) && !(error instanceof ApiError)) throw error; // the banner tells of a lost connection
}

function pause(seconds, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, seconds * 1000);
    signal.addEventListener(
      "abort",
      () => {
        clearTimeout(timer);
        resolve();
      },
      { once: true },
    );
  });
}
