"use strict";
const { left, right, top: high, words, times, series } = JSON.parse(document.getElementById("series").textContent);
const svg = document.querySelector("svg"), tip = document.getElementById("tip"), mark = document.querySelector(".mark");
const groups = [...document.querySelectorAll("g.series")], dots = groups.map((group) => group.querySelector(".dot"));
const buttons = [...document.querySelectorAll(".key button")];
const text = (value) => value === null ? "?" : value.toLocaleString("en", { maximumSignificantDigits: 10 });
const value = (one) => one.value === null ? "none" : text(one.value);
const interval = (one) => `[${text(one.low)}, ${text(one.high)}]${one.exact ? words.exact : ""}`;
function line(place, one) {
  const shown = document.createElement("div"), swatch = document.createElement("i");
  shown.className = `of${place}`;
  shown.append(swatch, one.rows === 0 ? `${series[place].key}  ${words.none}` : `${series[place].key}  ${value(one)}  ${interval(one)}`);
  return shown;
}
function show(index) {
  const x = left + (index + 0.5) * (right - left) / times.length, told = `${times[index][0]} – ${times[index][1]} UTC`;
  for (const end of ["x1", "x2"]) mark.setAttribute(end, x);
  mark.style.visibility = "visible";
  const at = series.map((one) => one.buckets[index]);
  at.forEach((one, place) => {
    dots[place].style.visibility = one.y === null ? "hidden" : "visible";
    if (one.y !== null) { dots[place].setAttribute("cx", x); dots[place].setAttribute("cy", one.y); }
  });
  if (buttons.length) tip.replaceChildren(told, ...at.map((one, place) => line(place, one)).filter((_, place) => !isHidden(place)));
  else tip.textContent = `${told}\n${words.value}  ${value(at[0])}\n${words.band}  ${interval(at[0])}\n${words.rows}  ${text(at[0].rows)}`;
  tip.style.visibility = "visible";
  const scale = svg.clientWidth / svg.viewBox.baseVal.width, room = svg.clientWidth - tip.offsetWidth - 4;
  const beside = x * scale + 14 > room ? x * scale - tip.offsetWidth - 14 : x * scale + 14;
  tip.style.left = `${Math.max(0, beside)}px`;
  tip.style.top = `${high * scale}px`;
}
function hide() { for (const part of [mark, ...dots, tip]) part.style.visibility = "hidden"; }
function isHidden(place) { return groups[place].style.display === "none"; }
buttons.forEach((button, place) => button.addEventListener("click", () => {
  groups[place].style.display = isHidden(place) ? "" : "none";
  button.setAttribute("aria-pressed", String(!isHidden(place)));
}));
svg.addEventListener("pointermove", (event) => {
  const box = svg.getBoundingClientRect(), x = (event.clientX - box.left) * svg.viewBox.baseVal.width / box.width;
  const index = Math.floor((x - left) / (right - left) * times.length);
  if (index >= 0 && index < times.length) show(index); else hide();
});
svg.addEventListener("pointerleave", hide);
