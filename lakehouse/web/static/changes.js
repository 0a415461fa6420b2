// How an answer came to be what it is: the same question in every version that is kept, and why it changed.

import { encoded, get } from "./api.js";
import { cell, h, number, table, time } from "./dom.js";
import { asked, defaultAgg, form } from "./explore.js";
import { PARTS } from "./parts.js";

export async function changes(sheet, parameters, go, later) {
  const { rows: streams } = await get("/latest/streams.json");
  if (!streams.length) { sheet.append(h("h1", {}, "How it changed"), h("p", { class: "note" }, "No stream is published yet.")); return; }
  const question = { ...asked(parameters), by: [] };
  question.stream ||= streams[0].stream;
  const stream = streams.find((one) => one.stream === question.stream);
  question.agg ||= defaultAgg(stream, question.measure);
  sheet.append(h("h1", {}, "How it changed"), form(question, streams, stream, "changes", go, false));
  const found = await get("/changes.json", question);
  const { rows } = found, label = "the answer in each kept version, with its interval";
  sheet.append(h("p", { class: "note" }, `${found.question.agg} of ${found.question.measure} of ${question.stream} in ${rows.length === 1 ? "the one version that is kept" : `the ${rows.length} versions that are kept`}`), PARTS.versions({ rows, label, why }, later));
  sheet.append(table("Versions", [
    ["version", (row) => h("a", { href: `/v/${row.version}/ask.json?${encoded(question)}` }, row.version), true], ["published", (row) => time(row.published_us)],
    ["value", (row) => cell(row.value), true], ["low", (row) => cell(row.low), true], ["high", (row) => cell(row.high), true],
    ["final", (row) => (row.final ? "yes" : "not final")], ["rows", (row) => number(row.rows), true], ["why", why]], [...rows].reverse()));
  if (rows.length > 1) sheet.append(compare(rows));
  const all = await get("/versions.json");
  sheet.append(h("h2", {}, "What came with each version"), table("What came with each version", [["version", (row) => row.version, true], ["published", (row) => time(row.published_us)], ["stream", (row) => row.stream], ["what", why]], [...all.rows].reverse()));
}

export function why(row) {
  if (row.batches === null) return "the first that is kept and has it";
  const said = [];
  if (row.received) said.push(`${number(row.received)} rows came in ${row.batches === 1 ? "one batch" : `${number(row.batches)} batches`}`);
  if (row.late) said.push(`${number(row.late)} of them late`);
  if (row.requeued) said.push(`${number(row.requeued)} rows requeued`);
  if (row.retracted) said.push(`${number(row.retracted)} rows retracted`);
  if (row.rebuilt) said.push("nodes built again");
  return said.join(", ") || "nothing of this changed";
}

function compare(rows) {
  const options = (chosen) => rows.map((row, place) => h("option", { value: place, selected: place === chosen }, `version ${row.version}`));
  const result = h("p", { role: "status" });
  const a = h("select", { "aria-label": "version A", onchange: show }, options(rows.length - 2)), b = h("select", { "aria-label": "version B", onchange: show }, options(rows.length - 1));
  function show() {
    const [from, to] = [Number(a.value), Number(b.value)].sort((x, y) => x - y), since = rows.slice(from + 1, to + 1);
    const sum = (name) => since.reduce((total, row) => total + Number(row[name] ?? 0), 0);
    const together = { batches: sum("batches"), received: sum("received"), late: sum("late"), requeued: sum("requeued"), retracted: sum("retracted"), rebuilt: since.some((row) => row.rebuilt) };
    const difference = rows[to].value === null || rows[from].value === null ? "–" : number(rows[to].value - rows[from].value);
    result.replaceChildren(`${cell(rows[from].value)} → ${cell(rows[to].value)}, a difference of ${difference}: ${why(together)}`);
  }
  show();
  return h("section", {}, h("h2", {}, "Compare"), h("form", {}, h("label", {}, "A", a), h("label", {}, "B", b)), result);
}
