// Charts with what belongs to each: what its marks mean, and its numbers as a table. The views of the page, and the
// pages that the command line writes, are made of these. Each takes the facts of one chart; `later` draws it once it is
// in the document, since its size is not known before.

import { bands, bars, fan, isDashed, lineColour, stepped } from "./charts.js";
import { bytes, cell, h, number, share, span, table, time } from "./dom.js";

// For one glance; the table has every digit.
const short = (value) => (value === null ? "?" : value.toLocaleString("en", { maximumSignificantDigits: 6 }));
const stretch = (row) => `${time(row.from_us)} to ${time(row.to_us)} UTC`;
const STRETCH = [["from", (row) => time(row.from_us)], ["to", (row) => time(row.to_us)]];
const swatch = (place, isLine = true) => h("i", { class: `swatch${isLine ? ` line${isDashed(place) ? " dashed" : ""}` : ""}`, style: { "--line": lineColour(place) } });
// A wide line lies below a narrow one, so that both are seen where they are the same.
const WIDE = 6;
const wideSwatch = (place) => h("i", { class: "swatch line", style: { "--line": lineColour(place), "border-top-width": `${WIDE}px` } });
const key = (words, ...mark) => h("span", {}, ...mark, words);
const nothing = (words) => h("p", { class: "note" }, words);

function part({ heading, label, note, size = "low", legend, draw, columns, rows }, later) {
  const chart = h("div", { class: `chart ${size}`, role: "img", "aria-label": `${label ?? heading}; arrow keys tell of each column, the table below has all numbers` });
  later(() => setTimeout(() => { if (chart.isConnected) draw(chart); }));
  return h("section", {}, heading ? h("h2", {}, heading) : null, note ? h("p", { class: "note" }, note) : null, h("div", { class: "legend" }, legend), chart,
    columns ? h("details", {}, h("summary", {}, "The numbers as a table"), table(label ?? heading, columns, rows)) : null);
}

export function bySeries(rows) {
  const found = new Map();
  for (const row of rows) {
    const name = JSON.stringify(row.key ?? {});
    if (!found.has(name)) found.set(name, { key: row.key ?? {}, rows: [] });
    found.get(name).rows.push(row);
  }
  return [...found.values()];
}

// An aggregate over time with its interval, a line for each key. With `ticks` the rows are answers of a query: each the
// last of its column, and the band reaches over all of them.
function series({ rows, heading, label, final_before_us, moments = [], ticks = false, onZoom }, later) {
  if (!rows.length) return nothing("No key has rows in this range.");
  const lines = bySeries(rows), names = lines.map((one) => Object.values(one.key).map(cell).join(", "));
  const hidden = new Set();
  const interval = (row) => `[${short(row.low)}, ${short(row.high)}]`, kind = (row) => (ticks ? "" : row.exact ? " exact" : " bounded");
  const tells = (row, name) => `${name ? `${name}: ` : ""}${row.rows ? `${short(row.value)} ${interval(row)}${kind(row)}, ${number(row.rows)} ${ticks ? "ticks" : "rows"}` : ticks ? "not answered" : "no rows"}`;
  const text = (place) => [stretch(lines[0].rows[place]), ...lines.flatMap((one, at) => (hidden.has(at) ? [] : [tells(one.rows[place], names[at])])), ...(lines.every((one) => one.rows[place].final) ? [] : ["not final"])];
  let drawn = [];
  const toggle = (place) => (event) => {
    hidden[hidden.has(place) ? "delete" : "add"](place);
    for (const one of drawn[place] ?? []) one.visible = !hidden.has(place);
    event.currentTarget.setAttribute("aria-pressed", String(!hidden.has(place)));
  };
  const buttons = lines.length > 1 ? names.map((name, place) => h("button", { type: "button", "aria-pressed": "true", onclick: toggle(place) }, swatch(place), name)) : [];
  return part({
    heading, label, size: "tall", legend: [...buttons, ...marks(rows, ticks), ...moments.map((one) => moment(one, rows))], rows,
    draw: (chart) => { drawn = bands(chart, lines, { finalBeforeUs: final_before_us, moments: moments.map((one) => ({ ...one, ...MOMENTS[one.name] })), onZoom, dots: !ticks, text }); },
    columns: [...STRETCH, ...Object.keys(lines[0].key).map((name) => [name, (row) => cell(row.key[name])]),
      ["value", (row) => cell(row.value), true], ["low", (row) => cell(row.low), true], ["high", (row) => cell(row.high), true], ...(ticks ? [] : [["kind", (row) => (row.exact ? "exact" : "bounded")]]),
      ["final", (row) => (row.final ? "yes" : "not final")], [ticks ? "ticks" : "rows", (row) => number(row.rows), true], ...(ticks ? [] : [["nodes of", (row) => span(row.finest_granularity_us)]])],
  }, later);
}

// Upright lines at moments that say how far a chart can be trusted: [{ name, us }, ...].
const MOMENTS = { newest: { words: "newest row", shade: "--ink", look: "", dash: [] }, final: { words: "final before", shade: "--good", look: "dashed", dash: [7, 4] }, published: { words: "published", shade: "--warn", look: "dotted", dash: [2, 3] } };

function moment({ name, us }, rows) {
  const { words, shade, look } = MOMENTS[name], isBefore = us < rows[0].from_us, isAfter = us > rows.at(-1).to_us;
  const mark = h("i", { class: `swatch upright ${look}`, style: { "--line": `var(${shade})` } });
  return key(`${words} ${time(us)}${isBefore ? ", before this chart" : isAfter ? ", after this chart" : ""}`, mark);
}

function marks(rows, ticks) {
  const exact = rows.filter((row) => row.exact).length, open = rows.filter((row) => !row.final).length;
  const band = ticks ? "line: the last tick of a column; band: from the least to the greatest of all ticks"
    : `band: sure interval of the rows held; ${number(exact)} of ${number(rows.length)} buckets exact (filled dots), the others bounded (hollow)`;
  const last = open ? key(`not final: ${ticks ? "may still change" : "late rows may still come"} (${number(open)} ${ticks ? "columns" : "buckets"})`, h("i", { class: "swatch hatch" })) : key("all final");
  return [key(band), last];
}

// What share of pairs was found at once: of each stretch the worst period that begins in it.
function recall({ rows, asked, note }, later) {
  if (!rows.length) return nothing("No period has enough pairs yet to be scored.");
  const scored = (row) => row.recall !== null;
  return part({
    heading: "Recall over event time", note, rows,
    legend: [key("recall at once, of the worst period that begins then", swatch(0)), key("it may still fall: a repair is to come", swatch(6)), key("found by repair", swatch(0, false)), asked === null ? null : key(`asked: ${asked}`, h("i", { class: "swatch asked" }))],
    draw: (chart) => stepped(chart, rows, {
      lines: [{ of: (row) => (row.open ? null : row.recall) }, { of: (row) => (row.open ? row.recall : null), place: 0, dashed: true }], within: (row) => (scored(row) && !row.open ? [row.recall, 1] : null), asked, low: null, high: 1,
      text: (row) => [stretch(row), ...(scored(row) ? [`recall ${cell(row.recall)}`, `${number(row.online)} of ${number(row.pairs)} pairs at once, ${row.open ? "repair to come" : `${number(row.pairs - row.online)} by repair`}`] : ["no period with enough pairs"])],
    }),
    columns: [...STRETCH, ["recall", (row) => cell(row.recall), true], ["pairs", (row) => number(row.pairs), true], ["at once", (row) => number(row.online), true], ["by repair", (row) => (row.pairs === null ? "–" : number(row.pairs - row.online)), true], ["repair to come", (row) => cell(row.open)]],
  }, later);
}

// How long pairs that repair found had to wait for it; a pair found at once waits not at all.
function waits({ rows }, later) {
  if (!rows.some((row) => row.repaired)) return nothing("No pair was found by repair: none had to wait.");
  const [name, size] = unit(Math.max(...rows.map((row) => row.repaired_wait_p99_us ?? 0)), TIMES), of = (field) => (row) => (row[field] === null ? null : row[field] / size);
  return part({
    heading: "Wait for repair over event time", rows,
    legend: [key(`mean wait of repaired pairs, ${name}`, swatch(0)), key(`99 % of them waited at most, ${name}`, wideSwatch(1))],
    draw: (chart) => stepped(chart, rows, { lines: [{ of: of("repaired_wait_p99_us"), place: 1, width: WIDE }, { of: of("repaired_wait_mean_us"), place: 0 }],
      text: (row) => [stretch(row), `${number(row.repaired)} of ${number(row.pairs)} pairs by repair`, row.repaired ? `they waited ${span(row.repaired_wait_mean_us)} on average, 99 % at most ${span(row.repaired_wait_p99_us)}` : "none waited"] }),
    columns: [...STRETCH, ["pairs", (row) => number(row.pairs), true], ["by repair", (row) => number(row.repaired), true], ["mean wait", (row) => span(row.repaired_wait_mean_us), true], ["99 % at most", (row) => span(row.repaired_wait_p99_us), true]],
  }, later);
}

const TIMES = [["days", 864e8], ["hours", 36e8], ["minutes", 6e7], ["seconds", 1e6], ["milliseconds", 1e3], ["microseconds", 1]];
const SIZES = [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10], ["bytes", 1]];
const unit = (most, units) => units.find(([, size]) => most >= 2 * size) ?? units.at(-1);

const inBatch = (row) => [`batch ${row.batch}, ended ${row.committed_at}`, ...(row.time_us === undefined ? [] : [`stream time ${time(row.time_us)}`])];
const BATCH = [["batch", (row) => String(row.batch), true], ["ended", (row) => row.committed_at]];

// What a query held after each batch; of very many batches those are shown that held most.
function memory({ rows }, later) {
  if (!rows.some((row) => row.bytes)) return null;
  const [name, size] = unit(Math.max(...rows.map((row) => row.bytes ?? 0)), SIZES);
  return part({
    heading: "State after each batch", label: "bytes of state after each batch", rows, legend: [key(`state, ${name}`, swatch(0))],
    draw: (chart) => stepped(chart, rows, { lines: [{ of: (row) => row.bytes / size }], text: (row) => [...inBatch(row), `${bytes(row.bytes)} of state`, `${number(row.held)} rows held`] }),
    columns: [...BATCH, ["rows held", (row) => number(row.held), true], ["at most", (row) => number(row.most_held), true], ["bytes of state", (row) => number(row.bytes), true]],
  }, later);
}

function held({ rows }, later) {
  if (!rows.some((row) => row.held)) return null;
  const most = rows.some((row) => row.most_held);
  return part({
    heading: "Rows held after each batch", rows, legend: [key("rows held after the batch", swatch(0)), most ? key("up to the most that its buckets held", swatch(0, false)) : null],
    draw: (chart) => stepped(chart, rows, { lines: [{ of: (row) => row.held }], within: (row) => (row.most_held ? [row.held, Math.max(row.held, row.most_held)] : null),
      text: (row) => [...inBatch(row), `${number(row.held)} rows held${row.most_held ? `, at most ${number(row.most_held)}` : ""}`] }),
    columns: [...BATCH, ["rows held", (row) => number(row.held), true], ["at most", (row) => number(row.most_held), true]],
  }, later);
}

// How long each side of a join waits for late rows, which is how it reaches the recall that was asked for.
function slack({ rows }, later) {
  if (!rows.some((row) => row.left_slack_us || row.right_slack_us)) return null;
  const [name, size] = unit(Math.max(...rows.flatMap((row) => [row.left_slack_us ?? 0, row.right_slack_us ?? 0])), TIMES);
  const of = (side) => (row) => (row[side] === null ? null : row[side] / size);
  return part({
    heading: "Slack after each batch", label: "the longest slack of any bucket, of each side", rows, legend: [key(`slack of the left side, ${name}: the longest of its buckets`, swatch(0)), key("of the right side", swatch(1))],
    draw: (chart) => stepped(chart, rows, { lines: [{ of: of("left_slack_us") }, { of: of("right_slack_us") }], text: (row) => [...inBatch(row), `left ${span(row.left_slack_us)}, right ${span(row.right_slack_us)}`] }),
    columns: [...BATCH, ["left", (row) => span(row.left_slack_us), true], ["right", (row) => span(row.right_slack_us), true]],
  }, later);
}

// How many answers of a join-aggregate late rows have changed.
function revisions({ rows }, later) {
  if (!rows.length) return null;
  return part({
    heading: "Revisions over event time", rows, legend: [key("revisions by late rows, at once", swatch(0)), key("revisions by repair", swatch(1))],
    draw: (chart) => stepped(chart, rows, { lines: [{ of: (row) => row.revised }, { of: (row) => row.repaired }], text: (row) => [stretch(row), `${number(row.answers)} answers`, `${number(row.revised)} revisions at once, ${number(row.repaired)} by repair`] }),
    columns: [...STRETCH, ["answers", (row) => number(row.answers), true], ["revised at once", (row) => number(row.revised), true], ["by repair", (row) => number(row.repaired), true]],
  }, later);
}

// Rows of each bucket, how many of them came late, and an estimate of what is still to come.
function arrivals({ rows, note }, later) {
  if (!rows.length) return nothing("No rows in this range.");
  return part({
    heading: "Rows per bucket", note, rows,
    legend: [key("came in time", swatch(0, false)), key("came late", swatch(1, false)), key("still expected, an estimate", h("i", { class: "swatch hatch" }))],
    draw: (chart) => bars(chart, rows, (row) => [stretch(row), `${number(row.rows)} rows, ${row.late === null ? "nobody knows how many" : number(row.late)} of them late`, `an estimate: ${number(Math.round(row.expected))} still to come`]),
    columns: [...STRETCH, ["rows", (row) => number(row.rows), true], ["late", (row) => number(row.late), true], ["late, of all", (row) => row.late === null ? "–" : share(row.late, row.rows), true], ["still expected (estimate)", (row) => number(Math.round(row.expected)), true]],
  }, later);
}

// One answer in every kept version; whoever shows it has the table.
function versions({ rows, label, why }, later) {
  if (!rows.some((row) => row.value !== null)) return nothing("No version has an answer to this.");
  return part({
    label, size: "tall", rows, legend: [key("value", swatch(0)), key("sure interval", swatch(0, false))],
    draw: (chart) => fan(chart, rows, (row) => [`version ${row.version}, ${time(row.published_us)} UTC`, `${cell(row.value)} [${cell(row.low)}, ${cell(row.high)}]`, why(row)]),
  }, later);
}

export const PARTS = { series, recall, waits, memory, held, slack, revisions, arrivals, versions };
