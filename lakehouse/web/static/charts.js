// Charts, drawn by Bokeh. Two uncertainties, never one: the filled band is the interval that rows held allow; hatching
// is where late rows may still come.

const ms = (us) => us / 1000;
const colour = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const LINES = ["#0b5cad", "#b3541e", "#17692b", "#8a2d8a", "#8a6d00", "#00707a", "#b3261e", "#4b4bb3", "#5d6b2d", "#a33a6b", "#2d6b5d", "#6b4e2d"];

function model(name, attributes) {
  return new (Bokeh.Models.get(name))(attributes);
}

function show(element, plot) {
  const document = new (Bokeh.require("document").Document)();
  document.add_root(plot);
  element.replaceChildren();
  return Bokeh.embed.add_document_standalone(document, element);
}

function frame(attributes, isTime = true) {
  const ink = colour("--faint");
  const grid = { grid_line_color: colour("--rule"), grid_line_alpha: 0.5 };
  const look = { axis_line_color: ink, major_tick_line_color: ink, minor_tick_line_color: null, major_label_text_color: ink };
  const plot = model("Plot", {
    sizing_mode: "stretch_both", background_fill_color: null, border_fill_color: null, outline_line_color: colour("--rule"),
    x_range: model("DataRange1d", { range_padding: 0 }), y_range: model("DataRange1d", { range_padding: 0.08 }), ...attributes,
  });
  const across = isTime ? model("DatetimeAxis", look) : model("LinearAxis", look);
  const up = model("LinearAxis", look);
  plot.add_layout(across, "below");
  plot.add_layout(up, "left");
  plot.add_layout(model("Grid", { ...grid, axis: across, dimension: 0 }));
  plot.add_layout(model("Grid", { ...grid, axis: up, dimension: 1 }));
  plot.toolbar.logo = null;
  plot.toolbar_location = null;
  return plot;
}

const source = (data) => model("ColumnDataSource", { data });
const value = (name) => ({ field: name });

function add(plot, kind, attributes, data) {
  return plot.add_glyph(model(kind, attributes), data);
}

// A number after each batch.
export function steps(element, x, y) {
  const plot = frame({}, false);
  add(plot, "Step", { x: value("x"), y: value("y"), mode: "after", line_color: colour("--band"), line_width: 1.6 }, source({ x, y }));
  add(plot, "Scatter", { marker: { value: "circle" }, x: value("x"), y: value("y"), size: { value: 5 }, fill_color: colour("--band"), line_color: null }, source({ x, y }));
  return show(element, plot);
}

// The corners of a stepped line that ends where a bucket has no value.
function corners(rows) {
  const x = [], y = [];
  rows.forEach((row, place) => {
    x.push(ms(row.from_us));
    y.push(row.value);
    if (rows[place + 1]?.from_us !== row.to_us) { x.push(ms(row.to_us), NaN); y.push(row.value, NaN); }
  });
  return { x, y };
}

// A band keeps its steps: each bucket is a rectangle from low to high; an unknown side reaches out of the chart.
function line(plot, rows, shade) {
  const known = rows.filter((row) => row.value !== null);
  const values = known.flatMap((row) => [row.value, row.low, row.high]).filter((one) => one !== null);
  const [least, most] = [Math.min(...values), Math.max(...values)];
  const far = (most - least || 1) * 10;
  const data = source({
    left: known.map((row) => ms(row.from_us)), right: known.map((row) => ms(row.to_us)),
    middle: known.map((row) => ms((row.from_us + row.to_us) / 2)),
    low: known.map((row) => row.low ?? least - far), high: known.map((row) => row.high ?? most + far),
    value: known.map((row) => row.value), shown: known.map((row) => (row.exact ? shade : colour("--ground"))),
  });
  add(plot, "Quad", { left: value("left"), right: value("right"), bottom: value("low"), top: value("high"), fill_color: shade, fill_alpha: 0.22, line_color: null }, data);
  add(plot, "Step", { x: value("x"), y: value("y"), mode: "after", line_color: shade, line_width: 1.6 }, source(corners(known)));
  if (known.length <= 400) {
    add(plot, "Scatter", { marker: { value: "circle" }, x: value("middle"), y: value("value"), size: { value: 5 }, line_color: shade, fill_color: value("shown") }, data);
  }
}

export async function bands(element, series, { finalBeforeUs, onZoom }) {
  const all = series.flatMap((one) => one.rows);
  const [from, to] = [ms(Math.min(...all.map((row) => row.from_us))), ms(Math.max(...all.map((row) => row.to_us)))];
  const plot = frame({ x_range: model("Range1d", { start: from, end: to }) });
  const open = all.filter((row) => !row.final).map((row) => row.from_us);
  if (open.length) {
    const left = ms(Math.max(Math.min(...open), finalBeforeUs ?? -Infinity));
    plot.add_layout(model("BoxAnnotation", { left, right: to, fill_color: null, hatch_pattern: "right_diagonal_line", hatch_color: colour("--faint"), hatch_alpha: 0.35, hatch_weight: 0.7, line_color: null }));
  }
  series.forEach((one, place) => line(plot, one.rows, LINES[place % LINES.length]));
  const zoom = model("BoxZoomTool", { dimensions: "width" });
  plot.add_tools(zoom);
  plot.toolbar.active_drag = zoom;
  let waiting;
  const zoomed = () => {
    clearTimeout(waiting);
    waiting = setTimeout(() => onZoom(Math.round(plot.x_range.start * 1000), Math.round(plot.x_range.end * 1000)), 150);
  };
  const view = await show(element, plot);
  plot.x_range.change.connect(zoomed);
  return view;
}

export function bars(element, rows, expected) {
  const [from, to] = [ms(rows[0].from_us), ms(rows.at(-1).to_us)];
  const plot = frame({ x_range: model("Range1d", { start: from, end: to }) });
  const sides = { left: rows.map((row) => ms(row.from_us)), right: rows.map((row) => ms(row.to_us)) };
  const held = rows.map((row) => row.value ?? 0);
  const data = source({ ...sides, zero: rows.map(() => 0), held, more: held.map((count, place) => count + expected[place]) });
  add(plot, "Quad", { left: value("left"), right: value("right"), bottom: value("zero"), top: value("held"), fill_color: colour("--band"), fill_alpha: 0.7, line_color: null }, data);
  add(plot, "Quad", { left: value("left"), right: value("right"), bottom: value("held"), top: value("more"), fill_color: null, hatch_pattern: { value: "right_diagonal_line" }, hatch_color: colour("--faint"), line_color: colour("--faint"), line_dash: [3, 3] }, data);
  return show(element, plot);
}

// One point per version, with its interval: how an answer came to be what it is.
export function fan(element, rows) {
  const plot = frame({}, false);
  const known = rows.filter((row) => row.value !== null);
  const data = source({ x: known.map((row) => row.version), y: known.map((row) => row.value), low: known.map((row) => row.low ?? row.value), high: known.map((row) => row.high ?? row.value) });
  add(plot, "VArea", { x: value("x"), y1: value("low"), y2: value("high"), fill_color: colour("--band"), fill_alpha: 0.2 }, data);
  add(plot, "Segment", { x0: value("x"), x1: value("x"), y0: value("low"), y1: value("high"), line_color: colour("--band"), line_width: 3 }, data);
  add(plot, "Line", { x: value("x"), y: value("y"), line_color: colour("--ink") }, data);
  add(plot, "Scatter", { marker: { value: "circle" }, x: value("x"), y: value("y"), size: { value: 8 }, fill_color: colour("--ink"), line_color: null }, data);
  return show(element, plot);
}

export function recall(element, rows, target) {
  const plot = frame({ y_range: model("Range1d", { start: 0, end: 1.05 }) });
  const data = source({ x: rows.map((row) => ms(row.start_us)), y: rows.map((row) => row.recall) });
  add(plot, "Step", { x: value("x"), y: value("y"), mode: "after", line_color: colour("--band"), line_width: 1.6 }, data);
  if (target !== null) plot.add_layout(model("Span", { location: target, dimension: "width", line_color: colour("--warn"), line_dash: [6, 4], line_width: 2 }));
  return show(element, plot);
}

export const lineColour = (place) => LINES[place % LINES.length];
