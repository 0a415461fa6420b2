// A measure over time with its interval; zooming goes to finer levels, and the band narrows.

import { encoded, get } from "./api.js";
import { bands, bars, lineColour } from "./charts.js";
import { cell, copyable, facts, h, number, span, table, time } from "./dom.js";

const AGGREGATES = ["avg", "sum", "count", "min", "max", "increase"];
const POINTS = 240;

export function asked(parameters) {
  const one = (name) => parameters.get(name) ?? "";
  return { stream: one("stream"), measure: one("measure") || "*", agg: one("agg"), from: one("from"), to: one("to"), where: parameters.getAll("where"), by: parameters.getAll("by") };
}

export async function explore(sheet, parameters, go, later) {
  const { rows: streams } = await get("/latest/streams.json");
  if (!streams.length) { sheet.append(h("h1", {}, "Explore"), h("p", { class: "note" }, "No stream is published yet.")); return; }
  const question = asked(parameters);
  question.stream ||= streams[0].stream;
  const stream = streams.find((one) => one.stream === question.stream);
  if (stream && question.measure === "*" && !parameters.has("measure") && stream.measures?.length) question.measure = stream.measures[0];
  question.agg ||= question.measure === "*" ? "count" : "avg";
  sheet.append(h("h1", {}, "Explore"), form(question, streams, stream, "explore", go));
  if (!stream) throw new Error(`no stream ${question.stream} is published`);
  const [found, whole] = await Promise.all([series(question), get("/latest/ask.json", { ...question, by: [] })]);
  sheet.append(answer(whole), strip(found, stream));
  if (!found.rows.length) { sheet.append(h("p", { class: "note" }, "No key has rows in this range.")); return; }
  const lines = bySeries(found.rows);
  const chart = h("div", { class: "chart tall", role: "img", "aria-label": `${found.question.agg} of ${question.measure} of ${question.stream} over time with its interval; the table below has its numbers` });
  const low = h("div", { class: "chart low", role: "img", "aria-label": "rows per bucket" });
  const note = h("p", { class: "note" }, "Drag over the chart, or set From and To, to see a part from finer levels.");
  sheet.append(legend(lines, found), chart, note, h("h2", {}, "Rows per bucket"), low, await completeness(low, question, found, stream, later));
  sheet.append(ends(stream), h("details", {}, h("summary", {}, "The numbers as a table"), numbers(found)), h("h2", {}, "Copy"), copies(question, found));
  later(() => setTimeout(() => bands(chart, lines, { finalBeforeUs: stream.final_before_us, onZoom: (from, to) => {
    if (to - from < found.question.to_us - found.question.from_us) go({ view: "explore", ...question, from: iso(from), to: iso(to) });
  } })));
}

// A Date holds milliseconds; the rest is put behind them.
const iso = (us) => new Date(Math.floor(us / 1000)).toISOString().replace("Z", `${String(((us % 1000) + 1000) % 1000).padStart(3, "0")}`);
const series = (question) => get("/latest/series.json", { ...question, points: POINTS, limit: question.by.length ? 12 : null });

export function form(question, streams, stream, view, go, withBy = true) {
  const select = (name, values, chosen, label) => h("label", {}, label, h("select", { name }, values.map((one) => h("option", { value: one, selected: one === chosen }, one))));
  const input = (name, value, label, list) => h("label", {}, label, h("input", { name, value, list, autocomplete: "off" }));
  const submit = (event) => {
    event.preventDefault();
    const data = new FormData(element);
    const several = (name) => (data.get(name) ?? "").split(",").map((one) => one.trim()).filter(Boolean);
    const changed = data.get("stream") !== question.stream;
    go({ view, stream: data.get("stream"), measure: changed ? null : data.get("measure"), agg: changed ? null : data.get("agg"), from: data.get("from"), to: data.get("to"), where: changed ? [] : several("where"), by: changed ? [] : several("by") });
  };
  const element = h("form", { onsubmit: submit, "aria-label": "Question" },
    select("stream", streams.map((one) => one.stream), question.stream, "Stream"),
    select("measure", ["*", ...(stream?.measures ?? [])], question.measure, "Measure (* for rows)"),
    select("agg", AGGREGATES, question.agg, "Aggregate"),
    input("from", question.from, "From (UTC)"), input("to", question.to, "To (UTC)"),
    input("where", question.where.join(", "), `Where (${(stream?.key_names ?? []).join(", ") || "no keys"})`),
    withBy ? input("by", question.by.join(", "), "By") : null, h("button", { class: "main" }, "Show"));
  element.elements.stream.addEventListener("change", () => element.requestSubmit());
  return element;
}

function answer(whole) {
  const [one] = whole.rows;
  const kind = one.exact ? h("span", { class: "good" }, "exact") : h("span", { class: "warn" }, "bounded");
  return h("section", { class: "card", "aria-label": "Answer for the whole range" },
    h("div", { class: "answer" }, cell(one.value)),
    facts([["sure interval", `[${cell(one.low)}, ${cell(one.high)}]`], ["kind", kind],
      ["final", one.final ? h("span", { class: "good" }, "yes") : h("span", { class: "warn" }, "not final: late rows may still come")],
      ["rows", number(one.rows)], ["nodes read", number(one.nodes_read)], ["version", h("a", { href: `/v/${whole.version}/ask.json?${encoded({ ...whole.question, from: `${whole.question.from_us}us`, to: `${whole.question.to_us}us`, where: Object.entries(whole.question.where).map(([k, v]) => `${k}=${v}`), from_us: null, to_us: null })}` }, whole.version)]]));
}

function bySeries(rows) {
  const found = new Map();
  for (const row of rows) {
    const key = JSON.stringify(row.key);
    if (!found.has(key)) found.set(key, { key: row.key, rows: [] });
    found.get(key).rows.push(row);
  }
  return [...found.values()];
}

function legend(lines, found) {
  const exact = found.rows.filter((row) => row.exact).length, open = found.rows.filter((row) => !row.final).length;
  return h("div", { class: "legend" },
    lines.length > 1 ? lines.map((one, place) => h("span", {}, h("i", { class: "swatch", style: { background: lineColour(place) } }), Object.values(one.key).map(cell).join(", "))) : null,
    h("span", {}, `band: sure interval of the rows held; ${exact} of ${found.rows.length} buckets exact (filled dots), the others bounded (hollow)`),
    open ? h("span", {}, h("i", { class: "swatch hatch" }), `not final: late rows may still come (${open} buckets)`) : h("span", {}, "all final"));
}

function strip(found, stream) {
  const widths = stream.widths_us, first = bySeries(found.rows)[0]?.rows ?? [];
  const runs = [];
  for (const row of first) {
    const last = runs.at(-1);
    if (last && last.width === row.finest_granularity_us) { last.to = row.to_us; last.count += 1; } else runs.push({ width: row.finest_granularity_us, from: row.from_us, to: row.to_us, count: 1 });
  }
  const levels = widths.map((width, place) => `level ${place + 1}: nodes of ${span(width)}${stream.horizons_us[place] > -1e18 ? `, kept from ${time(stream.horizons_us[place])} on` : ", kept for ever"}`);
  return h("section", {}, h("h2", {}, "Level that answered"),
    h("div", { class: "strip", role: "img", "aria-label": runs.map((run) => `${time(run.from)} to ${time(run.to)}: nodes of ${span(run.width)}`).join("; ") || "nothing" },
      runs.map((run) => h("span", { class: `l${Math.max(0, widths.indexOf(run.width))}`, style: { flex: String(run.count) }, title: `nodes of ${span(run.width)}` }))),
    h("div", { class: "legend" }, levels.map((text, place) => h("span", {}, h("i", { class: `swatch l${place}` }), text))));
}

// What late rows may still add, by how late this stream's rows have been so far: an estimate, and said to be one.
async function completeness(element, question, found, stream, later) {
  const counted = await get("/latest/series.json", { ...question, measure: "*", agg: "count", by: [], points: 120, from: `${found.question.from_us}us`, to: `${found.question.to_us}us` });
  const ledger = await get("/latest/ledger.json", { stream: question.stream, limit: 1000 });
  const late = [];
  let arrived = 0;
  for (const batch of ledger.rows) {
    arrived += batch.accepted + batch.duplicates;
    (batch.lateness ?? []).forEach((count, bin) => { late[bin] = (late[bin] ?? 0) + count; });
  }
  const later_than = (us) => late.reduce((sum, count, bin) => sum + (2 ** (bin + 1) * 1000 > us ? count : 0), 0) / (arrived || 1);
  const expected = counted.rows.map((row) => {
    const missing = later_than(Math.max(0, stream.newest_us - row.to_us));
    return row.to_us > stream.newest_us + (row.to_us - row.from_us) ? 0 : ((row.value ?? 0) * missing) / Math.max(0.05, 1 - missing);
  });
  const sum = Math.round(expected.reduce((a, b) => a + b, 0));
  later(() => setTimeout(() => bars(element, counted.rows, expected)));
  return h("p", { class: "note" }, `Solid: rows held. Hatched, an estimate: ${number(sum)} rows may still come, by how late rows of ${question.stream} have been so far.`);
}

const ends = (stream) => h("p", { class: "note" }, `newest row ${time(stream.newest_us)} · final before ${time(stream.final_before_us)} · version contains batches up to ${stream.batch}`);

function numbers(found) {
  return table("Numbers", [["from", (row) => time(row.from_us)], ["to", (row) => time(row.to_us)], ...found.question.by.map((name) => [name, (row) => cell(row.key[name])]),
    ["value", (row) => cell(row.value), true], ["low", (row) => cell(row.low), true], ["high", (row) => cell(row.high), true], ["kind", (row) => (row.exact ? "exact" : "bounded")],
    ["final", (row) => (row.final ? "yes" : "not final")], ["rows", (row) => number(row.rows), true], ["nodes of", (row) => span(row.finest_granularity_us)]], found.rows);
}

function copies(question, found) {
  const { agg, from_us, to_us } = found.question;
  const { stream, measure, where, by } = question;
  const shell = (text) => `'${text.replaceAll("'", "'\\''")}'`;
  const text = (value) => `'${String(value).replaceAll("'", "''")}'`;
  const pair = (one) => [one.slice(0, one.indexOf("=")), one.slice(one.indexOf("=") + 1)];
  const keys = where.length ? `, keys := MAP {${where.map(pair).map(([k, v]) => `${text(k)}: ${text(v)}`).join(", ")}}` : "";
  const python = [stream, measure, agg, iso(from_us), iso(to_us)].map((one) => JSON.stringify(one)).join(", ");
  const wanted = where.length ? `, where={${where.map(pair).map(([k, v]) => `${JSON.stringify(k)}: ${JSON.stringify(v)}`).join(", ")}}` : "";
  const url = `${location.origin}/latest/ask.json?${encoded({ stream, measure, agg, from: `${from_us}us`, to: `${to_us}us`, where, by })}`;
  const matchers = where.map(pair).map(([k, v]) => `${k}=${JSON.stringify(v)}`).join(",");
  const metric = `${stream}${measure === "*" ? "" : `:${measure}`}{${matchers}}[${Math.max(1, Math.round((to_us - from_us) / 1e6))}s]`;
  const range = `${agg === "increase" ? agg : `${agg}_over_time`}(${metric})`;
  const outer = { sum: "sum", count: "sum", increase: "sum", min: "min", max: "max" }[agg];
  const promql = by.length || !where.length ? (outer ? `${outer} by (${by.join(", ")}) (${range})` : range) : range;
  return h("div", { class: "copies" },
    copyable("URL", location.href),
    copyable("CLI", `tidemark ask ${shell(stream)} ${shell(measure)} --agg ${agg} --from ${iso(from_us)} --to ${iso(to_us)}${where.map((one) => ` --where ${shell(one)}`).join("")}${by.map((one) => ` --by ${shell(one)}`).join("")}`),
    copyable("SQL", `FROM range_${agg}(${text(stream)}, ${text(measure)}, TIMESTAMP ${text(iso(from_us).replace("T", " "))}, TIMESTAMP ${text(iso(to_us).replace("T", " "))}${keys}${by.length ? `, by := [${by.map(text).join(", ")}]` : ""})`),
    copyable("Python", `from pathlib import Path\nfrom lakehouse.serving.ask.ask import ask\nask(Path(\"var\"), ${python}${wanted}${by.length ? `, by=${JSON.stringify(by)}` : ""})`),
    copyable("curl", `curl ${shell(url)}`),
    copyable("PromQL", `${promql}  # at ${iso(to_us)}Z`));
}
