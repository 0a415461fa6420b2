"use strict";
const { left, right, top: high, bottom, buckets } = JSON.parse(document.getElementById("series").textContent);
const svg = document.querySelector("svg"), tip = document.getElementById("tip");
const mark = document.querySelector(".mark"), dot = document.querySelector(".dot");
const text = (value) => value === null ? "?" : value.toLocaleString("en", { maximumSignificantDigits: 10 });
function show(index) {
  const one = buckets[index], x = left + (index + 0.5) * (right - left) / buckets.length;
  for (const end of ["x1", "x2"]) mark.setAttribute(end, x);
  mark.style.visibility = "visible";
  dot.style.visibility = one.y === null ? "hidden" : "visible";
  if (one.y !== null) { dot.setAttribute("cx", x); dot.setAttribute("cy", one.y); }
  tip.textContent = `${one.from} – ${one.to} UTC\nvalue  ${one.value === null ? "none" : text(one.value)}\n` +
    `interval  [${text(one.low)}, ${text(one.high)}]${one.exact ? "  exact" : ""}\nrows  ${text(one.rows)}`;
  tip.style.visibility = "visible";
  const scale = svg.clientWidth / svg.viewBox.baseVal.width, room = svg.clientWidth - tip.offsetWidth - 4;
  const beside = x * scale + 14 > room ? x * scale - tip.offsetWidth - 14 : x * scale + 14;
  tip.style.left = `${Math.max(0, beside)}px`;
  tip.style.top = `${high * scale}px`;
}
function hide() { for (const part of [mark, dot, tip]) part.style.visibility = "hidden"; }
svg.addEventListener("pointermove", (event) => {
  const box = svg.getBoundingClientRect(), x = (event.clientX - box.left) * svg.viewBox.baseVal.width / box.width;
  const index = Math.floor((x - left) / (right - left) * buckets.length);
  if (index >= 0 && index < buckets.length) show(index); else hide();
});
svg.addEventListener("pointerleave", hide);
