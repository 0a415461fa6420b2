// A page that the command line wrote: its charts, from the numbers that stand in it.

import { PARTS } from "./parts.js";

const charts = JSON.parse(document.getElementById("charts").textContent);
const sheet = document.getElementById("sheet");

function draw() {
  const waiting = [];
  sheet.replaceChildren(...charts.map(({ kind, ...facts }) => PARTS[kind](facts, (late) => waiting.push(late))).filter(Boolean));
  waiting.forEach((late) => late());
}

matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
draw();
