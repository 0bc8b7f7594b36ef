// What tasks write, as text for the page. Pure.

const ESCAPES = new RegExp(
  "\\u001b(?:\\[[0-?]*[ -/]*[@-~]|\\][^\\u0007\\u001b]*(?:\\u0007|\\u001b\\\\)|[@-Z\\\\-_])",
  "g",
);
const CONTROLS = new RegExp("[\\u0000-\\u0008\\u000b\\u000c\\u000e-\\u001f\\u007f]", "g");

/** Text as a terminal would leave it: without escape sequences, and with lines that were written over. */
export function cleanOutput(text) {
  const plain = text.replace(ESCAPES, "").replaceAll("\r\n", "\n");
  const lines = plain.includes("\r") ? plain.split("\n").map(overwrite).join("\n") : plain;
  return lines.replace(CONTROLS, "");
}

function overwrite(line) {
  const parts = line.split("\r");
  return parts.at(-1) === "" && parts.length > 1 ? parts.at(-2) : parts.at(-1);
}

/** The last lines of a text, as many as fit, and whether something was left out. */
export function keepEnd(text, most) {
  if (text.length <= most) return [text, false];
  const cut = text.indexOf("\n", text.length - most);
  return [text.slice(cut < 0 ? text.length - most : cut + 1), true];
}

/** Rows that have all words of a filter, whatever their case. */
export function matches(filter, ...fields) {
  const text = fields.flat().join(" ").toLowerCase();
  return filter
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
}
