// Sets the theme that was chosen, before anything is painted. Without a choice the system's setting holds.
"use strict";
{
  let chosen = null;
  try {
    chosen = localStorage.getItem("theme");
  } catch {
    // storage may be forbidden; then nothing is remembered
  }
  if (chosen === "dark" || chosen === "light") document.documentElement.dataset.theme = chosen;
}
