// Charts, drawn by Bokeh. Two uncertainties, never one: the filled band is the interval that rows held allow; hatching
// is where late rows may still come.

import { h } from "./dom.js";

const ms = (us) => us / 1000;
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const HATCH = { hatch_pattern: "right_diagonal_line", hatch_alpha: 0.3, hatch_weight: 0.7, hatch_scale: 16 };
// Six colours stay apart for every kind of colour blindness; more would not, so the second six are dashed.
const COLOURS = 6;

export const lineColour = (place) => `var(--c${place % COLOURS})`;
export const isDashed = (place) => place >= COLOURS;
const dashes = (is) => (is ? [7, 4] : []);
const shadeOf = (place) => colour(`--c${place % COLOURS}`);

function model(name, attributes) {
  return new (Bokeh.Models.get(name))(attributes);
}

// columns: [{ from, to, text: () => lines }, ...] in the units and the order of the axis across.
async function show(element, plot, columns) {
  const document = new (Bokeh.require("document").Document)();
  document.add_root(plot);
  const views = await Bokeh.embed.add_document_standalone(document, element);
  tell(element, views.get_one(plot), columns);
}

// Tells of one column at a time: the one under the pointer, or the next one by the arrow keys.
function tell(element, view, columns) {
  const tip = h("div", { class: "tip", role: "status", hidden: true }), mark = h("div", { class: "mark", hidden: true });
  let shown = -1;
  const hide = () => { shown = -1; tip.hidden = mark.hidden = true; };
  const told = (place) => {
    if (place < 0 || place >= columns.length) return;
    shown = place;
    const { from, to, text } = columns[place], { bbox, x_scale } = view.frame;
    tip.replaceChildren(...text().map((line) => h("div", {}, line)));
    tip.hidden = mark.hidden = false;
    const x = Math.min(Math.max(x_scale.compute((from + to) / 2), bbox.left), bbox.right);
    Object.assign(mark.style, { left: `${x}px`, top: `${bbox.top}px`, height: `${bbox.height}px` });
    const beside = x + 12 + tip.offsetWidth > element.clientWidth ? x - 12 - tip.offsetWidth : x + 12;
    tip.style.left = `${Math.max(0, Math.min(beside, element.clientWidth - tip.offsetWidth))}px`;
  };
  element.append(mark, tip);
  element.tabIndex = 0;
  element.addEventListener("pointermove", (event) => {
    const at = view.frame.x_scale.invert(event.clientX - element.getBoundingClientRect().left);
    const place = columns.findLastIndex((column) => column.from <= at);
    if (place >= 0 && at < columns[place].to) told(place); else hide();
  });
  element.addEventListener("pointerleave", hide);
  element.addEventListener("blur", hide);
  element.addEventListener("keydown", (event) => {
    const place = { ArrowRight: shown + 1, ArrowLeft: shown < 0 ? columns.length - 1 : shown - 1, Home: 0, End: columns.length - 1 }[event.key];
    if (event.key === "Escape") hide();
    if (place === undefined) return;
    event.preventDefault();
    told(place);
  });
}

// Times of day, and once below them the day; days and longer stretches say themselves.
function clock() {
  const all = (text) => Object.fromEntries(["microseconds", "milliseconds", "seconds", "minsec", "minutes", "hourmin", "hours"].map((unit) => [unit, text]));
  const days = { days: "%Y-%m-%d", months: "%Y-%m", years: "%Y" };
  const context = model("DatetimeTickFormatter", { ...all("%Y-%m-%d"), days: "", months: "", years: "" });
  return model("DatetimeTickFormatter", { ...all("%H:%M"), seconds: "%H:%M:%S", minsec: "%H:%M:%S", milliseconds: "%H:%M:%S.%3N", microseconds: "%H:%M:%S.%f", ...days, context, context_which: "start" });
}

const numbersOf = (row) => [row.value, row.low, row.high];

// Ticks as people write numbers: as many digits as their distance needs, and whole ones for what is counted.
export function ticks(numbers) {
  const known = numbers.filter((one) => one !== null && Number.isFinite(one)), most = known.reduce((a, b) => Math.max(a, Math.abs(b)), 0);
  const apart = known.reduce((a, b) => Math.max(a, b), -Infinity) - known.reduce((a, b) => Math.min(a, b), Infinity);
  if (known.every(Number.isInteger) && most < 1e15) return { ticker: model("BasicTicker", { min_interval: 1 }), formatter: model("NumeralTickFormatter", { format: "0,0" }) };
  const digits = Math.ceil(-Math.log10(Math.max(apart, 1e-6 * most) / 10));
  // Very large and very small ones stay powers of ten.
  return digits > 9 || most >= 1e15 || most === 0 ? {} : { formatter: model("NumeralTickFormatter", { format: digits > 0 ? `0,0.[${"0".repeat(digits)}]` : "0,0" }) };
}

// `up`: the numbers that the axis upwards is for.
function frame(attributes, up, isTime = true) {
  const ink = colour("--faint");
  const grid = { grid_line_color: colour("--rule"), grid_line_alpha: 0.5 };
  const look = { axis_line_color: ink, major_tick_line_color: ink, minor_tick_line_color: null, major_label_text_color: ink };
  const plot = model("Plot", {
    sizing_mode: "stretch_both", background_fill_color: null, border_fill_color: null, outline_line_color: colour("--rule"),
    x_range: model("DataRange1d", { range_padding: 0 }), y_range: model("DataRange1d", { range_padding: 0.08 }), ...attributes,
  });
  const across = isTime ? model("DatetimeAxis", { ...look, formatter: clock() }) : model("LinearAxis", { ...look, ticker: model("BasicTicker", { min_interval: 1 }), formatter: model("NumeralTickFormatter", { format: "0" }) });
  const upwards = model("LinearAxis", { ...look, ...ticks(up) });
  plot.add_layout(across, "below");
  plot.add_layout(upwards, "left");
  plot.add_layout(model("Grid", { ...grid, axis: across, dimension: 0 }));
  plot.add_layout(model("Grid", { ...grid, axis: upwards, dimension: 1 }));
  plot.toolbar.logo = null;
  plot.toolbar_location = null;
  return plot;
}

const source = (data) => model("ColumnDataSource", { data });
const value = (name) => ({ field: name });
const range = (start, end) => model("Range1d", { start, end });

function add(plot, kind, attributes, data) {
  return plot.add_glyph(model(kind, attributes), data);
}

// The corners of a stepped line that ends where a column has no value.
function corners(edges, values) {
  const x = [], y = [];
  values.forEach((one, place) => {
    if (one === null) return;
    const [from, to] = edges[place], isLast = values[place + 1] === null || edges[place + 1]?.[0] !== to;
    x.push(from);
    y.push(one);
    if (isLast) { x.push(to, NaN); y.push(one, NaN); }
  });
  return { x, y };
}

function step(plot, edges, values, shade, isBroken, width = 1.6) {
  const look = { x: value("x"), y: value("y"), mode: "after", line_color: shade, line_width: width, line_dash: dashes(isBroken) };
  return add(plot, "Step", look, source(corners(edges, values)));
}

// One rectangle for each column that has an interval: a band keeps its steps.
function band(plot, edges, intervals, shade) {
  const known = intervals.flatMap((one, place) => (one === null ? [] : [[...edges[place], ...one]]));
  const [left, right, low, high] = [0, 1, 2, 3].map((side) => known.map((one) => one[side]));
  const look = { left: value("left"), right: value("right"), bottom: value("low"), top: value("high"), fill_color: shade, fill_alpha: 0.22, line_color: null };
  return add(plot, "Quad", look, source({ left, right, low, high }));
}

// From the least to the greatest, with room; what differs by rounding alone is no difference to look at.
function around(numbers) {
  const [least, most] = numbers.reduce(([low, high], one) => (one === null ? [low, high] : [Math.min(low, one), Math.max(high, one)]), [Infinity, -Infinity]);
  if (least > most) return range(0, 1);
  const room = Math.max(0.08 * (most - least), 1e-6 * Math.max(Math.abs(least), Math.abs(most))) || 1;
  return range(least - room, most + room);
}

// One line with its band, and dots that are filled where the answer is exact; an unknown side reaches to the edge of the chart.
function line(plot, rows, place, dots) {
  const shade = shadeOf(place), known = rows.filter((row) => row.value !== null);
  const { start, end } = plot.y_range, edges = known.map((row) => [ms(row.from_us), ms(row.to_us)]);
  const drawn = [
    band(plot, edges, known.map((row) => [row.low ?? start, row.high ?? end]), shade),
    step(plot, edges, known.map((row) => row.value), shade, isDashed(place)),
  ];
  if (!dots) return drawn;
  const data = source({ x: edges.map(([from, to]) => (from + to) / 2), y: known.map((row) => row.value), shown: known.map((row) => (row.exact ? shade : colour("--ground"))) });
  return [...drawn, add(plot, "Scatter", { marker: { value: "circle" }, x: value("x"), y: value("y"), size: { value: 5 }, line_color: shade, fill_color: value("shown") }, data)];
}

// Several lines over the same buckets, and upright lines at moments: [{ us, shade, dash }, ...]. Answers what was drawn of
// each line, to show and hide it.
export function bands(element, lines, { finalBeforeUs, moments = [], onZoom, dots, text }) {
  const all = lines.flatMap((one) => one.rows), first = lines[0].rows;
  const [from, to] = [ms(first[0].from_us), ms(first.at(-1).to_us)];
  const plot = frame({ x_range: range(from, to), y_range: around(all.flatMap(numbersOf)) }, all.flatMap(numbersOf));
  const open = all.find((row) => !row.final);
  if (open) {
    const left = all.reduce((least, row) => (row.final ? least : Math.min(least, row.from_us)), Infinity);
    plot.add_layout(model("BoxAnnotation", { left: ms(Math.max(left, finalBeforeUs ?? -Infinity)), right: to, fill_color: null, hatch_color: colour("--faint"), line_color: null, ...HATCH }));
  }
  const drawn = lines.map((one, place) => line(plot, one.rows, place, dots && all.length <= 1500));
  for (const { us, shade, dash } of moments) {
    if (from <= ms(us) && ms(us) <= to) plot.add_layout(model("Span", { location: ms(us), dimension: "height", line_color: colour(shade), line_dash: dash, line_width: 2 }));
  }
  if (onZoom) zooms(plot, onZoom);
  show(element, plot, first.map((row, place) => ({ from: ms(row.from_us), to: ms(row.to_us), text: () => text(place) })));
  return drawn;
}

function zooms(plot, onZoom) {
  const zoom = model("BoxZoomTool", { dimensions: "width" });
  plot.add_tools(zoom);
  plot.toolbar.active_drag = zoom;
  let waiting;
  plot.x_range.change.connect(() => {
    clearTimeout(waiting);
    waiting = setTimeout(() => onZoom(Math.round(plot.x_range.start * 1000), Math.round(plot.x_range.end * 1000)), 150);
  });
}

// Numbers over stretches of time, or batch by batch, as stepped lines; `within` gives an interval for a row, or null;
// `asked` is what was asked for. lines: [{ of: row => number or null, place, dashed, width }, ...]; later ones lie above.
export function stepped(element, rows, { lines, within = () => null, asked = null, low = 0, high = null, text }) {
  const isTime = rows[0].from_us !== undefined;
  const edges = rows.map((row, place) => (isTime ? [ms(row.from_us), ms(row.to_us)] : [row.batch - 0.5, (rows[place + 1]?.batch ?? row.batch + 1) - 0.5]));
  const intervals = rows.map(within), values = lines.map((one) => rows.map((row) => one.of(row) ?? null));
  const all = [...values.flat(), ...intervals.flat(), asked, low, high].filter((one) => one !== null);
  const [least, most] = all.reduce(([l, m], one) => [Math.min(l, one), Math.max(m, one)], [Infinity, -Infinity]);
  const room = 0.06 * (most - least || 1), top = most || 1;
  const plot = frame({ x_range: range(edges[0][0], edges.at(-1)[1]), y_range: range(low === 0 ? 0 : least - room, top + room) }, all, isTime);
  band(plot, edges, intervals, shadeOf(0));
  lines.forEach((one, place) => step(plot, edges, values[place], shadeOf(one.place ?? place), one.dashed, one.width));
  if (asked !== null) plot.add_layout(model("Span", { location: asked, dimension: "width", line_color: colour("--warn"), line_dash: [6, 4], line_width: 2 }));
  return show(element, plot, rows.map((row, place) => ({ from: edges[place][0], to: edges[place][1], text: () => text(row) })));
}

// Rows per bucket: those that came in time, above them those that came late, and hatched what may still come.
export function bars(element, rows, text) {
  const plot = frame({ x_range: range(ms(rows[0].from_us), ms(rows.at(-1).to_us)) }, rows.map((row) => row.rows));
  const data = source({
    left: rows.map((row) => ms(row.from_us)), right: rows.map((row) => ms(row.to_us)), zero: rows.map(() => 0),
    timely: rows.map((row) => row.rows - (row.late ?? 0)), held: rows.map((row) => row.rows), more: rows.map((row) => row.rows + row.expected),
  });
  const stack = (bottom, top, look) => add(plot, "Quad", { left: value("left"), right: value("right"), bottom: value(bottom), top: value(top), line_color: null, ...look }, data);
  stack("zero", "timely", { fill_color: shadeOf(0), fill_alpha: 0.7 });
  stack("timely", "held", { fill_color: shadeOf(1) });
  stack("held", "more", { fill_color: null, hatch_pattern: { value: HATCH.hatch_pattern }, hatch_color: colour("--faint"), line_color: colour("--faint"), line_dash: [3, 3] });
  return show(element, plot, rows.map((row) => ({ from: ms(row.from_us), to: ms(row.to_us), text: () => text(row) })));
}

// One point per version, with its interval: how an answer came to be what it is.
export function fan(element, rows, text) {
  const known = rows.filter((row) => row.value !== null);
  const x_range = range(Math.min(...known.map((row) => row.version)) - 0.5, Math.max(...known.map((row) => row.version)) + 0.5);
  const plot = frame({ x_range, y_range: around(known.flatMap(numbersOf)) }, known.flatMap(numbersOf), false);
  const data = source({ x: known.map((row) => row.version), y: known.map((row) => row.value), low: known.map((row) => row.low ?? row.value), high: known.map((row) => row.high ?? row.value) });
  add(plot, "VArea", { x: value("x"), y1: value("low"), y2: value("high"), fill_color: shadeOf(0), fill_alpha: 0.2 }, data);
  add(plot, "Segment", { x0: value("x"), x1: value("x"), y0: value("low"), y1: value("high"), line_color: shadeOf(0), line_width: 3 }, data);
  add(plot, "Line", { x: value("x"), y: value("y"), line_color: colour("--ink") }, data);
  add(plot, "Scatter", { marker: { value: "circle" }, x: value("x"), y: value("y"), size: { value: 8 }, fill_color: colour("--ink"), line_color: null }, data);
  return show(element, plot, known.map((row) => ({ from: row.version - 0.5, to: row.version + 0.5, text: () => text(row) })));
}
