"use strict";
const { left, right, top: high, charts } = JSON.parse(document.getElementById("series").textContent);
for (const figure of document.querySelectorAll("figure")) {
  const columns = charts[figure.dataset.chart];
  const svg = figure.querySelector("svg"), tip = figure.querySelector(".tip");
  const mark = figure.querySelector(".mark"), dots = [...figure.querySelectorAll(".dot")];
  const hide = () => { for (const part of [mark, tip, ...dots]) part.style.visibility = "hidden"; };
  const show = (index) => {
    const one = columns[index], x = left + (index + 0.5) * (right - left) / columns.length;
    for (const end of ["x1", "x2"]) mark.setAttribute(end, x);
    mark.style.visibility = "visible";
    dots.forEach((dot, place) => {
      const y = one.dots[place];
      dot.style.visibility = y === null ? "hidden" : "visible";
      if (y !== null) { dot.setAttribute("cx", x); dot.setAttribute("cy", y); }
    });
    tip.textContent = one.tip;
    tip.style.visibility = "visible";
    const scale = svg.clientWidth / svg.viewBox.baseVal.width, room = svg.clientWidth - tip.offsetWidth - 4;
    const beside = x * scale + 14 > room ? x * scale - tip.offsetWidth - 14 : x * scale + 14;
    tip.style.left = `${Math.max(0, beside)}px`;
    tip.style.top = `${high * scale}px`;
  };
  svg.addEventListener("pointermove", (event) => {
    const box = svg.getBoundingClientRect(), x = (event.clientX - box.left) * svg.viewBox.baseVal.width / box.width;
    const index = Math.floor((x - left) / (right - left) * columns.length);
    if (index >= 0 && index < columns.length) show(index); else hide();
  });
  svg.addEventListener("pointerleave", hide);
}
