// Registered queries: how complete they are, and alarms as lanes.

import { get } from "./api.js";
import { cell, facts, h, number, share, span, table, time } from "./dom.js";
import { groups } from "./overview.js";
import { PARTS } from "./parts.js";

export async function queries(sheet, parameters, go, later) {
  // Every part is asked of one version, so that the parts agree where another is published meanwhile.
  const { version, rows } = await get("/latest/queries.json"), at = `/v/${version}`;
  const chosen = rows.find((row) => row.query === parameters.get("query"));
  sheet.append(h("h1", {}, chosen ? `Query ${chosen.query}` : "Queries"));
  sheet.append(table("Queries", [["query", (row) => h("a", { href: `?view=queries&query=${encodeURIComponent(row.query)}` }, row.query)], ["kind", (row) => row.kind], ["what it is for", (row) => row.description],
    ["published", (row) => number(row.published), true], ["rows waiting for repair", (row) => number(row.open), true]], chosen ? [chosen] : rows));
  if (!chosen && parameters.get("query")) throw new Error(`no query ${parameters.get("query")} is published`);
  for (const row of chosen ? [chosen] : rows) for (const doubt of row.doubts ?? []) sheet.append(h("p", { class: "warn", role: "note" }, `${row.query}: ${doubt}`));
  if (!chosen) return;
  sheet.append(h("h2", {}, "State"), facts([["batches", number(chosen.batches)], ["repairs", `${number(chosen.repairs)}, through batch ${cell(chosen.repaired_through)}`], ["rows taken in", number(chosen.rows)],
    ["found online", number(chosen.rows_found)], ["found by repair", number(chosen.repaired)], ["rows that may have missed partners", number(chosen.missed)], ["partners gone for good", number(chosen.gone)],
    ["window", span(chosen.window_us)], ["time of all sides", time(chosen.time_us)], ["final before", time(chosen.final_before_us)], ["method", cell(chosen.method)], ["statement", cell(chosen.statement)]].filter(([, value]) => value !== "–")));
  if (chosen.recall !== null) await complete(sheet, at, chosen, later);
  if (chosen.alarms !== null) await lanes(sheet, at, chosen);
  await measured(sheet, chosen, later);
  await found(sheet, at, chosen);
}

const of = (query, what) => `/queries/${encodeURIComponent(query)}/${what}.json`;
const none = (problem) => { if (problem.status === 404) return { rows: [], columns: [] }; throw problem; };

// Slack and memory batch by batch, and the conditions in the order in which they run; a query that runs none has none.
async function measured(sheet, chosen, later) {
  const [batches, operators] = await Promise.all([get(of(chosen.query, "batches"), { limit: 200 }).catch(none), get(of(chosen.query, "operators")).catch(none)]);
  const rows = [...batches.rows].reverse();
  sheet.append(...["slack", "held", "memory"].map((kind) => PARTS[kind]({ rows }, later)).filter(Boolean));
  sheet.append(h("details", {}, h("summary", {}, "Batches as a table"), table("Batches", batches.columns.map((name) => [name, (row) => (/_us$/.test(name) ? (name === "time_us" ? time : span)(row[name]) : cell(row[name])), name !== "committed_at"]), batches.rows)));
  if (operators.rows.length) sheet.append(h("h2", {}, "Operators, in the order in which they run"), ...sides(operators.rows).map(flow));
}

function sides(rows) {
  const found = new Map();
  for (const row of rows) found.set(row.side, [...(found.get(row.side) ?? []), row]);
  return [...found.values()];
}

// What each condition lets through to the next one, as boxes whose arrows are as thick as what passes.
function flow(rows) {
  const most = rows[0].taken || 1;
  const arrow = (count) => h("span", { class: "arrow" }, h("i", { style: { height: `${Math.max(1, (18 * count) / most)}px` } }), `${number(count)} rows`);
  return h("ol", { class: "flow", "aria-label": rows[0].side === null ? "operators" : `operators of side ${rows[0].side}` },
    h("li", {}, h("strong", {}, rows[0].side === null ? "rows" : `side ${rows[0].side}`), arrow(rows[0].taken)),
    rows.map((row) => h("li", {}, h("div", { class: "card" }, h("code", {}, row.name), h("div", { class: "note" }, `${share(row.passed, row.taken)} pass, ${span(row.busy_us)} of work, at most ${number(row.waited)} waited`)), arrow(row.passed))));
}

// Periods overlap; where there are very many, the worst of those that begin close together is shown, as elsewhere.
function worst(rows, step_us) {
  const each = Math.ceil(rows.length / 480), found = [];
  for (let at = 0; at < rows.length; at += each) {
    const some = rows.slice(at, at + each), one = some.reduce((a, b) => (b.recall < a.recall ? b : a));
    found.push({ from_us: some[0].start_us, to_us: some.at(-1).start_us + step_us, recall: one.recall, pairs: one.pairs, online: one.online, open: one.open > 0 });
  }
  return found;
}

async function complete(sheet, at, chosen, later) {
  const [page, waited] = await Promise.all([get(`${at}${of(chosen.query, "completeness")}`, { limit: 10000 }), chosen.kind === "pairs" ? get(`${at}${of(chosen.query, "waits")}`) : null]);
  const rows = page.rows.filter((row) => row.is_scored), missed = rows.filter((row) => row.met === false).length;
  const met = `met in ${number(rows.length - missed)} of ${number(rows.length)} periods with 100 or more (${share(rows.length - missed, rows.length)})`;
  const note = `asked: ${chosen.recall} of each ${span(chosen.period_us)}; ${met}; repair found ${number(chosen.repaired)} more`;
  sheet.append(PARTS.recall({ rows: worst(rows, chosen.step_us), asked: chosen.recall, note }, later), ...(waited ? [PARTS.waits({ rows: waited.rows }, later)] : []));
}

async function lanes(sheet, at, chosen) {
  const { rows } = await get(`${at}/queries/${encodeURIComponent(chosen.query)}/alarms.json`, { limit: 10000 });
  sheet.append(h("h2", {}, "Alarms"));
  if (!rows.length) { sheet.append(h("p", { class: "note" }, "none was ever raised")); return; }
  const from = Math.min(...rows.map((row) => row.raised_us)), to = Math.max(...rows.map((row) => row.cleared_us ?? chosen.time_us ?? row.raised_us)) + 1;
  const said = h("p", { role: "status", class: "note" }, "Choose an alarm to see how it came about.");
  const tell = (row) => said.replaceChildren(`${groups(row)}: ${row.merged_into ? "merged" : row.state}, ${time(row.raised_us)} to ${time(row.cleared_us)}, changed ${row.changes} times, ${row.final ? "final" : "not final"}`);
  const lane = (name) => h("div", {}, h("div", { class: "note" }, name), h("div", { class: "lane" }, rows.filter((row) => groups(row) === name).map((row) => h("button", {
    type: "button", class: row.merged_into ? "merged" : row.state, onclick: () => tell(row), "aria-label": `${name} ${row.state} ${time(row.raised_us)}`,
    style: { left: `${(100 * (row.raised_us - from)) / (to - from)}%`, width: `${(100 * ((row.cleared_us ?? to) - row.raised_us)) / (to - from)}%` } }))));
  sheet.append(h("p", { class: "note" }, `${time(from)} to ${time(to)}; red: raised, blue: cleared, grey: merged into another, dashed: withdrawn`), ...[...new Set(rows.map(groups))].slice(0, 50).map(lane), said,
    h("details", {}, h("summary", {}, "Alarms as a table"), table("Alarms", [["of", groups], ["state", (row) => row.state], ["raised", (row) => time(row.raised_us)], ["cleared", (row) => time(row.cleared_us)], ["changes", (row) => row.changes, true], ["merged into", (row) => cell(row.merged_into)], ["final", (row) => cell(row.final)]], rows.slice(-500).reverse())));
}

async function found(sheet, at, chosen) {
  const kind = chosen.kind === "aggregate" ? "answers" : chosen.kind;
  const page = await get(`${at}/queries/${encodeURIComponent(chosen.query)}/${kind}.json`, { limit: 50 });
  // Numbers of rows and times in microseconds are for machines; some are larger than a number of this language.
  const shown = page.columns.filter((name) => !/_us$|_row$|_rows?_?ids?$|row_id|^batch$/.test(name));
  sheet.append(h("h2", {}, `First rows of ${kind}_${chosen.query}`), table("Rows", shown.map((name) => [name, (row) => (Number.isInteger(row[name]) ? String(row[name]) : cell(row[name])), typeof page.rows[0]?.[name] === "number"]), page.rows),
    h("p", {}, h("a", { href: `${at}/queries/${encodeURIComponent(chosen.query)}/${kind}.csv?limit=10000`, download: `${kind}_${chosen.query}.csv` }, "first 10,000 as CSV")));
}
