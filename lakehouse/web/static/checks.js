// What was rejected, with its bytes; and the newest verdicts of the rules.

import { encoded, get } from "./api.js";
import { cell, copyable, h, number, shell, table } from "./dom.js";

// What rejected records can be counted and chosen by, and its word.
const FACETS = { reason: "reason", source_file: "file", day: "day", batch: "batch" };

export async function quarantine(sheet, parameters, go) {
  const { rows: streams } = await get("/latest/streams.json");
  const stream = parameters.get("stream") ?? streams[0]?.stream;
  const chosen = Object.fromEntries(Object.keys(FACETS).map((name) => [name, parameters.get(name)]).filter(([, value]) => value));
  sheet.append(h("h1", {}, "Quarantine"), h("form", { "aria-label": "Stream" }, h("label", {}, "Stream", h("select", { onchange: (event) => go({ view: "quarantine", stream: event.target.value }) }, streams.map((one) => h("option", { selected: one.stream === stream }, one.stream))))));
  if (!stream) { sheet.append(h("p", { class: "note" }, "No stream is published yet.")); return; }
  if (!streams.some((one) => one.stream === stream)) throw new Error(`no stream ${stream} is published`);
  const facets = await get(`/quarantine/${encodeURIComponent(stream)}/facets.json`, chosen).catch((problem) => { if (problem.status === 404) return { rows: [] }; throw problem; });
  const said = Object.entries(chosen).map(([name, value]) => `${FACETS[name]} ${value}`).join(", "), all = h("a", { href: `?view=quarantine&stream=${encodeURIComponent(stream)}` }, "show all");
  if (!facets.rows.length) { sheet.append(h("p", { class: "good" }, said ? [`Nothing was ever rejected of ${said}; `, all] : "Nothing was ever rejected.")); return; }
  const link = (name) => (row) => (row.value === null ? "–" : h("a", { href: `?${encoded({ view: "quarantine", stream, ...chosen, [name]: row.value })}` }, row.value));
  sheet.append(h("div", { class: "cards" }, Object.entries(FACETS).map(([name, words]) => h("section", { class: "card" }, h("h3", {}, `By ${words}`),
    table(`By ${words}`, [["records", (row) => number(row.records), true], [words, link(name)]], facets.rows.filter((row) => row.facet === name).slice(0, 10))))));
  const counts = await openOf(stream);
  if (counts) sheet.append(h("p", { class: counts.open ? "warn" : "good" }, `Of all records ever rejected ${number(counts.open)} are open in the published version, and a requeue has closed ${number(counts.closed)}.`));
  if (said) sheet.append(h("p", {}, `Only ${said}: `, all));
  const page = await get(`/quarantine/${encodeURIComponent(stream)}.json`, { ...chosen, limit: 100 });
  sheet.append(h("h2", {}, page.truncated ? "The newest 100 records" : "Records"), h("p", { class: "note" }, "As they came; what is no printable text is escaped. Those that were requeued since are here too."));
  const shown = table("Records", [["reason", (row) => row.reason], ["what was wrong", (row) => row.detail], ["record", (row) => h("code", {}, cell(row.record))], ["bytes", (row) => number(row.bytes), true], ["file", (row) => row.source_file], ["line", (row) => row.source_line, true]], page.rows);
  sheet.append(shown, h("h2", {}, "After a fix"), copyable("CLI", `tidemark requeue ${shell(stream)}${chosen.reason ? ` --reason ${shell(chosen.reason)}` : ""}`));
}

// Open and closed records of a stream; null where the token does not see the state of the home.
async function openOf(stream) {
  const state = await get("/status.json").catch((problem) => { if ([401, 403, 404].includes(problem.status)) return null; throw problem; });
  return state?.streams.find((one) => one.stream === stream && one.open !== undefined) ?? null;
}

// The newest verdict of each rule; none where nothing has been checked.
export async function verdicts() {
  const page = await get("/quality.json", { runs: 1, limit: 10000 }).catch((problem) => { if (problem.status === 404) return { rows: [] }; throw problem; });
  return page.rows;
}
