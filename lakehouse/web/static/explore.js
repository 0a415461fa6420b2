// A measure over time with its interval; zooming goes to finer levels, and the band narrows.

import { encoded, get } from "./api.js";
import { cell, copyable, facts, h, number, shell, span, table, time } from "./dom.js";
import { PARTS, bySeries } from "./parts.js";

const AGGREGATES = ["avg", "sum", "count", "min", "max", "increase"];
const POINTS = 240;
// As many lines can be told apart; the others are in a table.
const LINES = 12, MOST_ANSWERS = 1000;

export function asked(parameters) {
  const one = (name) => parameters.get(name) ?? "", all = (name) => parameters.getAll(name).filter(Boolean);
  return { stream: one("stream"), measure: one("measure") || "*", agg: one("agg"), from: one("from"), to: one("to"), where: all("where"), by: all("by") };
}

export async function explore(sheet, parameters, go, later) {
  // Every part is asked of one version, so that the parts agree where another is published meanwhile.
  const { version, published_us, rows: streams } = await get("/latest/streams.json"), at = `/v/${version}`;
  if (!streams.length) { sheet.append(h("h1", {}, "Explore"), h("p", { class: "note" }, "No stream is published yet.")); return; }
  const question = asked(parameters);
  question.stream ||= streams[0].stream;
  const stream = streams.find((one) => one.stream === question.stream);
  if (stream && question.measure === "*" && !parameters.has("measure") && stream.measures?.length) question.measure = stream.measures[0];
  question.agg ||= defaultAgg(stream, question.measure);
  sheet.append(h("h1", {}, "Explore"), form(question, streams, stream, "explore", go));
  if (!stream) throw new Error(`no stream ${question.stream} is published`);
  const [found, whole, apart] = await Promise.all([series(at, question), get(`${at}/ask.json`, { ...question, by: [] }), question.by.length ? get(`${at}/ask.json`, { ...question, limit: MOST_ANSWERS }) : null]);
  sheet.append(answer(whole), strip(found, stream));
  if (apart?.rows.length > LINES) sheet.append(fewer(at, question, apart));
  const onZoom = (from, to) => {
    if (to - from < found.question.to_us - found.question.from_us) go({ view: "explore", ...question, from: iso(from), to: iso(to) });
  };
  const label = `${found.question.agg} of ${question.measure} of ${question.stream} over time with its interval`;
  const moments = [["newest", stream.newest_us], ["final", stream.final_before_us], ["published", published_us]].filter(([, us]) => us !== null).map(([name, us]) => ({ name, us }));
  sheet.append(PARTS.series({ rows: found.rows, label, final_before_us: stream.final_before_us, moments, onZoom }, later));
  if (!found.rows.length) return;
  sheet.append(h("p", { class: "note" }, "Drag over the chart, or set From and To, to see a part from finer levels."));
  sheet.append(completeness(at, question, found, later), h("p", { class: "note" }, `version ${version} contains batches up to ${stream.batch}`), h("h2", {}, "Copy"), copies(question, found, stream));
}

// A Date holds milliseconds; the rest is put behind them.
const iso = (us) => new Date(Math.floor(us / 1000)).toISOString().replace("Z", `${String(((us % 1000) + 1000) % 1000).padStart(3, "0")}`);
const series = (at, question) => get(`${at}/series.json`, { ...question, points: POINTS, limit: question.by.length ? LINES : null });

// A measure's own aggregate: what is asked for where nobody names another.
export const defaultAgg = (stream, measure) => stream?.default_aggs?.[stream.measures.indexOf(measure)] ?? "count";

// Readings of a counter do not add up, and nothing else has an increase.
function aggregates(stream, measure) {
  if (measure === "*") return ["count"];
  const isCounter = stream?.counters?.includes(measure);
  return AGGREGATES.filter((one) => one !== (isCounter ? "sum" : "increase"));
}

export function form(question, streams, stream, view, go, withBy = true) {
  const select = (name, values, chosen, label) => h("label", {}, label, h("select", { name }, values.map((one) => h("option", { value: one, selected: one === chosen }, one))));
  const input = (name, value, label, list) => h("label", {}, label, h("input", { name, value, list, autocomplete: "off" }));
  const submit = (event) => {
    event.preventDefault();
    const data = new FormData(element);
    const several = (name) => (data.get(name) ?? "").split(",").map((one) => one.trim()).filter(Boolean);
    const changed = data.get("stream") !== question.stream, isOther = changed || data.get("measure") !== question.measure;
    go({ view, stream: data.get("stream"), measure: changed ? null : data.get("measure"), agg: isOther ? null : data.get("agg"), from: data.get("from"), to: data.get("to"), where: changed ? [] : several("where"), by: changed ? [] : several("by") });
  };
  const element = h("form", { onsubmit: submit, "aria-label": "Question" },
    select("stream", streams.map((one) => one.stream), question.stream, "Stream"),
    select("measure", ["*", ...(stream?.measures ?? [])], question.measure, "Measure (* for rows)"),
    select("agg", aggregates(stream, question.measure), question.agg, "Aggregate"),
    input("from", question.from, "From (UTC)"), input("to", question.to, "To (UTC)"),
    input("where", question.where.join(", "), `Where (${(stream?.key_names ?? []).join(", ") || "no keys"})`),
    withBy ? input("by", question.by.join(", "), "By") : null, h("button", { class: "main" }, "Show"));
  element.elements.stream.addEventListener("change", () => element.requestSubmit());
  return element;
}

// Of more keys than a chart can show it has the first ones; here are all of them.
function fewer(at, question, { rows, truncated }) {
  const count = truncated ? `more than ${number(MOST_ANSWERS)}` : number(rows.length), by = question.by.join(", ");
  const columns = [...question.by.map((name) => [name, (row) => cell(row.key[name])]), ["value", (row) => digits(row), true], ["low", (row) => cell(row.low), true], ["high", (row) => cell(row.high), true], ["kind", (row) => (row.exact ? "exact" : "bounded")], ["rows", (row) => number(row.rows), true]];
  return h("section", {}, h("p", { class: "warn", role: "note" }, `The chart draws ${LINES} of ${count} values of ${by}: the first in their order. Where chooses another one; the table has ${truncated ? `the first ${number(MOST_ANSWERS)}` : "all"}, the largest first.`),
    h("details", {}, h("summary", {}, `${truncated ? `The first ${number(MOST_ANSWERS)}` : `All ${count}`} answers by ${by}`), table(`Answers by ${by}`, columns, [...rows].sort((a, b) => (b.value ?? -Infinity) - (a.value ?? -Infinity))),
      h("p", {}, h("a", { href: `${at}/ask.csv?${encoded(question)}`, download: `${question.stream}.csv` }, "as CSV"))));
}

// What a double does not hold is shown with all of its digits.
const digits = (one) => (one.low === one.high ? cell(one.value) : one.exact_value ?? cell(one.value));

function answer(whole) {
  const [one] = whole.rows;
  const isNothing = one.value === null && !one.rows && !one.ambiguous;
  const kind = isNothing ? "no row to answer from" : one.exact ? h("span", { class: "good" }, "exact") : h("span", { class: "warn" }, "bounded");
  return h("section", { class: "card", "aria-label": "Answer for the whole range" },
    h("div", { class: "answer" }, digits(one)), [...(whole.withheld ? [whole.withheld] : []), ...(whole.doubts ?? [])].map((note) => h("p", { class: "warn", role: "note" }, note)), (whole.notes ?? []).map((note) => h("p", whole.missing ? { class: "warn", role: "note" } : { class: "error", role: "alert" }, note)),
    facts([["sure interval", isNothing ? null : `[${cell(one.low)}, ${cell(one.high)}]`], ["kind", kind],
      ["final", one.final ? h("span", { class: "good" }, "yes") : h("span", { class: "warn" }, one.unchecked || one.ambiguous ? "not final" : "not final: late rows may still come")],
      ["rows", number(one.rows)], ["nodes read", number(one.nodes_read)], ["version", h("a", { href: `/v/${whole.version}/ask.json?${encoded({ ...whole.question, from: `${whole.question.from_us}us`, to: `${whole.question.to_us}us`, where: Object.entries(whole.question.where).map(([k, v]) => `${k}=${v}`), from_us: null, to_us: null })}` }, whole.version)]]));
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

// Rows that came late are counted from raw rows, which takes longer than the answer: it comes when it is there.
function completeness(at, question, found, later) {
  const place = h("section", { "aria-busy": "true" }, h("h2", {}, "Rows per bucket"), h("p", { class: "note" }, "Loading …"));
  const shown = (element) => place.replaceWith(element);
  get(`${at}/arrivals.json`, { stream: question.stream, where: question.where, points: 120, from: `${found.question.from_us}us`, to: `${found.question.to_us}us` }).then(({ rows }) => {
    const sum = rows.reduce((total, row) => total + row.expected, 0);
    const note = `Expected is an estimate: ${number(Math.round(sum))} rows may still come, if rows of ${question.stream} are as late as they have been so far.${rows.some((row) => row.late === null) ? " Where raw rows are kept no longer, nobody can count those that came late." : ""}`;
    later(() => shown(PARTS.arrivals({ rows, note }, later)));
  }).catch((problem) => shown(h("p", { class: "error", role: "alert" }, `Rows per bucket: ${problem.message}`)));
  return place;
}

function copies(question, found, { key_names }) {
  const { agg, from_us, to_us } = found.question;
  const { stream, measure, where, by } = question;
  const text = (value) => `'${String(value).replaceAll("'", "''")}'`;
  const pair = (one) => [one.slice(0, one.indexOf("=")), one.slice(one.indexOf("=") + 1)];
  const keys = where.length ? `, keys := MAP {${where.map(pair).map(([k, v]) => `${text(k)}: ${text(v)}`).join(", ")}}` : "";
  const python = [stream, measure, agg, iso(from_us), iso(to_us)].map((one) => JSON.stringify(one)).join(", ");
  const wanted = where.length ? `, where={${where.map(pair).map(([k, v]) => `${JSON.stringify(k)}: ${JSON.stringify(v)}`).join(", ")}}` : "";
  const url = `${location.origin}/latest/ask.json?${encoded({ stream, measure, agg, from: `${from_us}us`, to: `${to_us}us`, where, by })}`;
  const matchers = where.map(pair).map(([k, v]) => `${k}=${JSON.stringify(v)}`).join(",");
  // Prometheus knows ranges of whole milliseconds.
  const metric = `${stream}${measure === "*" ? "" : `:${measure}`}{${matchers}}[${Math.max(1, Math.round((to_us - from_us) / 1e3))}ms]`;
  const range = `${agg === "increase" ? agg : `${agg}_over_time`}(${metric})`;
  const outer = { sum: "sum", count: "sum", increase: "sum", min: "min", max: "max" }[agg];
  const promql = outer ? `${outer}${by.length ? ` by (${by.join(", ")})` : ""} (${range})` : range;
  // An average of averages is not the average: there PromQL can only tell series apart.
  const apart = outer || key_names.every((name) => by.includes(name) || where.some((one) => pair(one)[0] === name)) ? "" : `, one for each ${key_names.join(", ")}`;
  return h("div", { class: "copies" },
    copyable("URL", location.href),
    copyable("CLI", `tidemark ask ${shell(stream)} ${shell(measure)} --agg ${agg} --from ${iso(from_us)} --to ${iso(to_us)}${where.map((one) => ` --where ${shell(one)}`).join("")}${by.map((one) => ` --by ${shell(one)}`).join("")}`),
    copyable("SQL", `FROM range_${agg}(${text(stream)}, ${text(measure)}, TIMESTAMP ${text(iso(from_us).replace("T", " "))}, TIMESTAMP ${text(iso(to_us).replace("T", " "))}${keys}${by.length ? `, by := [${by.map(text).join(", ")}]` : ""})`),
    copyable("Python", `from pathlib import Path\nfrom lakehouse.serving.ask.ask import ask\nask(Path(\"var\"), ${python}${wanted}${by.length ? `, by=${JSON.stringify(by)}` : ""})`),
    copyable("curl", `curl -H "Authorization: Bearer $TIDEMARK_TOKEN" ${shell(url)}`),
    copyable("PromQL", `${promql}  # at ${iso(to_us)}Z${apart}`));
}
