// Asks a question before something changes, says what came of it, and shows the keys.

import { post } from "../lib/api.js";
import { h } from "../lib/dom.js";

const KEYS = [
  ["1 … 6", "go to a view"],
  ["/", "filter"],
  ["j, k", "next and previous row"],
  ["Enter", "open the row"],
  ["← ↑ ↓ →", "move in the picture of the tasks, or along the time axis"],
  ["n", "back to now"],
  ["u", "up, from a task to its job"],
  ["t", "dark or light"],
  ["?", "these keys"],
  ["Esc", "close, or leave a field"],
];

/** Show a question. Resolves to true only if it was answered with the verb. */
export function ask({ title, text, verb, isBad = false }) {
  const dialog = document.getElementById("question");
  const yes = h("button", { type: "submit", value: "yes", class: isBad ? "bad" : "main" }, verb);
  const no = h("button", { type: "submit", value: "no", autofocus: true }, "Leave it as it is");
  dialog.replaceChildren(
    h("form", { method: "dialog" }, h("h2", { id: "question-title" }, title), h("p", {}, text), h("menu", {}, no, yes)),
  );
  dialog.returnValue = "no";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "yes"), { once: true });
  });
}

/** Ask, then change, then say so. Returns the server's answer, or null. */
export async function change(question, path, body, done) {
  if (!(await ask(question))) return null;
  try {
    const answer = await post(path, body);
    say(done);
    return answer;
  } catch (error) {
    say(error.message, true);
    return null;
  }
}

let timer = null;

/** A sentence at the foot of the page, for some seconds. */
export function say(text, isBad = false) {
  const toast = document.getElementById("toast");
  toast.textContent = text;
  toast.classList.toggle("bad", isBad);
  toast.hidden = false;
  clearTimeout(timer);
  timer = setTimeout(
    () => {
      toast.hidden = true;
    },
    isBad ? 10_000 : 4_000,
  );
}

export function showKeys() {
  const dialog = document.getElementById("keys");
  const rows = KEYS.map(([key, words]) => h("div", {}, h("dt", {}, h("kbd", {}, key)), h("dd", {}, words)));
  const close = h("button", { type: "submit", autofocus: true }, "Close");
  dialog.replaceChildren(
    h(
      "form",
      { method: "dialog" },
      h("h2", { id: "keys-title" }, "Keys"),
      h("dl", { class: "facts" }, rows),
      h("menu", {}, close),
    ),
  );
  dialog.showModal();
}
