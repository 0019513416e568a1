// Runs before the first paint, so that the page never flashes in the other theme.
"use strict";
document.documentElement.classList.add("js");
try {
  const theme = localStorage.getItem("dacapo-theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch { /* a browser that keeps nothing */ }
