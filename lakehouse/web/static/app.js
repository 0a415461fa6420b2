// The page: one view at a time, each a URL; what is shown can always be asked again elsewhere.

import { encoded, follow } from "./api.js";
import { h } from "./dom.js";
import { changes } from "./changes.js";
import { explore } from "./explore.js";
import { overview } from "./overview.js";
import { quarantine } from "./checks.js";
import { queries } from "./queries.js";

const VIEWS = { __proto__: null, overview, explore, changes, queries, quarantine };
const main = document.getElementById("main");
let shown = 0, newest = null, drawn = null;

export function go(parameters, { replace = false } = {}) {
  history[replace ? "replaceState" : "pushState"](null, "", `?${encoded(parameters)}`);
  draw();
}

async function draw({ again = false } = {}) {
  const place = ++shown;
  const parameters = new URLSearchParams(location.search);
  const name = parameters.get("view") || "overview";
  document.title = `${VIEWS[name] ? document.querySelector(`nav a[href="?view=${name}"]`).textContent : "No such view"} · Tidemark`;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.getAttribute("href") === `?view=${name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  const waiting = setTimeout(() => { main.setAttribute("aria-busy", "true"); main.replaceChildren(h("p", { class: "note" }, "Loading …")); }, 300);
  drawn = newest;
  const sheet = h("div"), undrawn = [];
  let isGone = false;
  try {
    // What is drawn must be in the document, for its size.
    const later = (late) => { if (place !== shown) return; if (sheet.isConnected) late(); else undrawn.push(late); };
    await (VIEWS[name] ?? unknown)(sheet, parameters, go, later);
    if (place === shown) { main.replaceChildren(sheet); undrawn.forEach((late) => late()); }
  } catch (error) {
    // The version that was asked is kept no longer, while the view was drawn: the next one is asked, once.
    isGone = error.status === 410 && !again && place === shown;
    // The form stays, so that what was asked can be mended.
    if (place === shown && !isGone) main.replaceChildren(sheet.querySelector("h1") ? sheet : h("h1", {}, error.title ?? "Error"), h("p", { class: "error", role: "alert" }, error.message));
  } finally {
    clearTimeout(waiting);
    if (!isGone) {
      main.removeAttribute("aria-busy");
      main.dataset.drawn = String(place);
      state();
    }
  }
  if (isGone) await draw({ again: true });
}

function unknown(sheet, parameters) {
  sheet.append(h("h1", {}, "No such view"));
  throw new Error(`no view ${parameters.get("view")}; there are: ${Object.keys(VIEWS).join(", ")}`);
}

function state() {
  const element = document.getElementById("version");
  if (newest === null) { element.replaceChildren(h("span", { class: "warn" }, "not connected: what is shown may be stale")); return; }
  if (drawn !== null && newest > drawn) {
    element.replaceChildren(h("button", { type: "button", onclick: () => draw() }, `version ${newest} is new: show it`));
    return;
  }
  element.replaceChildren(`version ${newest} · UTC`);
}

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[href^='?']");
  if (!link || event.metaKey || event.ctrlKey || event.shiftKey) return;
  event.preventDefault();
  history.pushState(null, "", link.getAttribute("href"));
  draw().then(() => main.focus({ preventScroll: true }));
});
window.addEventListener("popstate", () => draw());
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw());
follow((version) => { newest = version ?? null; if (drawn === null) drawn = newest; state(); });
draw();
