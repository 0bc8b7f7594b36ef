// Reads the colours of the theme for canvases, and gives each job a colour that stays the same.

import { STATES } from "./states.js";

const probe = document.createElement("i");
const pixel = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
let known = new Map();

/** The colour that a custom property has now, as CSS text. */
export function readColour(name) {
  if (!known.has(name)) known.set(name, resolve(name));
  return known.get(name);
}

function resolve(name) {
  if (!probe.isConnected) {
    probe.hidden = true;
    document.body.append(probe);
  }
  probe.style.color = `var(--${name})`;
  return getComputedStyle(probe).color;
}

/** The same, with another opacity. */
export function fade(name, opacity) {
  return readColour(name).replace(/^rgba?\(([^,]+),([^,]+),([^,)]+).*$/, `rgba($1,$2,$3,${opacity})`);
}

/** A colour as a pixel of image data, whatever way the machine orders bytes. */
export function readPixel(name) {
  pixel.fillStyle = readColour(name);
  pixel.fillRect(0, 0, 1, 1);
  return new Uint32Array(pixel.getImageData(0, 0, 1, 1).data.buffer)[0];
}

/** A pixel for each state, by its number. */
export function readPalette() {
  return Uint32Array.from(STATES, (state) => readPixel(state));
}

const FIRST_HUE = 78; // degrees: below are the reds, which mean failure
const GOLDEN = 0.618034;

/** The hue of a job: neighbours differ by the golden section, so that no two near ones look alike. */
export function findHue(job) {
  return Math.round(FIRST_HUE + ((job * GOLDEN) % 1) * (355 - FIRST_HUE));
}

/** A colour for each command: a job has another one only by chance. */
export function colourCommand(name) {
  let sum = 0;
  for (const letter of name) sum = (31 * sum + letter.codePointAt(0)) % 65_521;
  return colourJob(sum);
}

export function colourJob(job) {
  return `oklch(${isDark() ? "0.64 0.1" : "0.7 0.11"} ${findHue(job)})`;
}

const prefersDark = matchMedia("(prefers-color-scheme: dark)");
const listeners = new Set();

function isChosen() {
  return "theme" in document.documentElement.dataset;
}

export function isDark() {
  return isChosen() ? document.documentElement.dataset.theme === "dark" : prefersDark.matches;
}

/** Call `listener` whenever the colours change. Returns a function that ends that. */
export function onTheme(listener) {
  listeners.add(listener);
  return () => listeners.delete(listener);
}

function announce() {
  known = new Map();
  for (const listener of listeners) listener();
}

prefersDark.addEventListener("change", announce);

/** Switch to the other theme, and remember it. */
export function switchTheme() {
  const theme = isDark() ? "light" : "dark";
  document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem("theme", theme);
  } catch {
    // storage may be forbidden; then it lasts as long as the page
  }
  announce();
}
