// What was rejected, with its bytes; and what the rules said.

import { get } from "./api.js";
import { cell, copyable, h, number, table } from "./dom.js";

export async function quarantine(sheet, parameters, go) {
  const { rows: streams } = await get("/latest/streams.json");
  const stream = parameters.get("stream") ?? streams[0]?.stream, reason = parameters.get("reason"), source_file = parameters.get("source_file");
  sheet.append(h("h1", {}, "Quarantine"), h("form", { "aria-label": "Stream" }, h("label", {}, "Stream", h("select", { onchange: (event) => go({ view: "quarantine", stream: event.target.value }) }, streams.map((one) => h("option", { selected: one.stream === stream }, one.stream))))));
  if (!stream) { sheet.append(h("p", { class: "note" }, "No stream is published yet.")); return; }
  if (!streams.some((one) => one.stream === stream)) throw new Error(`no stream ${stream} is published`);
  const facets = await get(`/quarantine/${encodeURIComponent(stream)}/facets.json`, { reason }).catch((problem) => { if (problem.status === 404) return { rows: [] }; throw problem; });
  if (!facets.rows.length) { sheet.append(h("p", { class: "good" }, reason ? `Nothing was ever rejected for the reason ${reason}.` : "Nothing was ever rejected.")); return; }
  const link = (facet) => (row) => h("a", { href: `?${new URLSearchParams({ view: "quarantine", stream, ...(facet === "reason" ? { reason: row.value } : { ...(reason ? { reason } : {}), source_file: row.value }) })}` }, row.value);
  const of = (facet) => facets.rows.filter((row) => row.facet === facet);
  sheet.append(h("div", { class: "cards" },
    h("section", { class: "card" }, h("h3", {}, "By reason"), table("By reason", [["reason", link("reason")], ["records", (row) => number(row.records), true]], of("reason"))),
    h("section", { class: "card" }, h("h3", {}, "By file"), table("By file", [["file", link("source_file")], ["records", (row) => number(row.records), true]], of("source_file").slice(0, 10))),
    h("section", { class: "card" }, h("h3", {}, "By day"), table("By day", [["day", (row) => cell(row.value)], ["records", (row) => number(row.records), true]], of("day").slice(0, 10))),
    h("section", { class: "card" }, h("h3", {}, "By batch"), table("By batch", [["batch", (row) => row.value], ["records", (row) => number(row.records), true]], of("batch").slice(0, 10)))));
  if (reason || source_file) sheet.append(h("p", {}, [reason, source_file].filter(Boolean).join(", "), " ", h("a", { href: `?view=quarantine&stream=${encodeURIComponent(stream)}` }, "show all")));
  const page = await get(`/quarantine/${encodeURIComponent(stream)}.json`, { reason, source_file, limit: 100 });
  sheet.append(h("h2", {}, page.truncated ? "The newest 100 records" : "Records"), h("p", { class: "note" }, "As they came; what is no printable text is escaped. Those that were requeued since are here too."));
  const shown = table("Records", [["reason", (row) => row.reason], ["what was wrong", (row) => row.detail], ["record", (row) => h("code", {}, cell(row.record))], ["bytes", (row) => number(row.bytes), true], ["file", (row) => row.source_file], ["line", (row) => row.source_line, true]], page.rows);
  sheet.append(shown, h("h2", {}, "After a fix"), copyable("CLI", `tidemark requeue ${stream}${reason ? ` --reason ${reason}` : ""}`));
}

// The newest verdicts of each rule, [[newest, the one before, ...], ...]; none where nothing has been checked.
export async function verdicts(runs) {
  const page = await get("/quality.json", { runs, limit: 10000 }).catch((problem) => { if (problem.status === 404) return { rows: [] }; throw problem; });
  const rules = new Map();
  for (const row of page.rows) { const key = `${row.stream} ${row.table} ${row.expectation}`; rules.set(key, [...(rules.get(key) ?? []), row]); }
  return [...rules.values()];
}

export function held(rules) {
  const failing = rules.filter(([row]) => !row.success).length;
  return h("p", { class: failing ? "bad" : "good" }, rules.length ? `${number(rules.length - failing)} of ${number(rules.length)} rules hold` : "No rule has been checked yet.");
}

export async function quality(sheet, parameters) {
  const failed = parameters.get("failed") === "true", rules = await verdicts(20);
  sheet.append(h("h1", {}, "Quality"), held(rules),
    h("p", {}, h("a", { href: failed ? "?view=quality" : "?view=quality&failed=true" }, failed ? "show all rules" : "show only rules that did not hold of late"),
      rules.length ? [" · ", h("a", { href: "/reports/index.html" }, "reports of the checks (Data Docs)")] : null));
  sheet.append(table("Rules", [["stream", (rows) => rows[0].stream], ["table", (rows) => rows[0].table], ["rule", (rows) => rows[0].expectation], ["holds", (rows) => h("span", { class: rows[0].success ? "good" : "bad" }, rows[0].success ? "yes" : "no")],
    ["observed", (rows) => cell(rows[0].observed), true], ["expected", (rows) => rows[0].expected], ["runs, newest first", (rows) => rows.map((row) => (row.success ? "●" : "✕")).join("")], ["checked", (rows) => rows[0].at]],
    failed ? rules.filter((rows) => rows.some((row) => !row.success)) : rules));
}
