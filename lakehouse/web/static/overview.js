// For a person on call: does every row have a place, is anything standing still, what is raised now?

import { get } from "./api.js";
import { verdicts } from "./checks.js";
import { cell, facts, h, number, share, span, table, time } from "./dom.js";

export async function overview(sheet) {
  const [state, queries, rules] = await Promise.all([
    get("/status.json"), get("/latest/queries.json").catch(() => ({ rows: [] })), verdicts().catch(() => []),
  ]);
  const standing = stillStanding(state);
  sheet.append(
    h("h1", {}, "Overview"),
    state.published ? h("p", { class: "note" }, `Version ${state.published.version}, published ${time(Date.parse(state.published.published_at) * 1000)}, ${span(state.published.age_s * 1e6)} ago`)
      : h("p", { class: "warn" }, "Nothing is published yet: run `tidemark run`."),
    standing.length ? h("section", {}, h("h2", {}, "Stands still"), h("ul", {}, standing.map((line) => h("li", { class: "bad" }, line)))) : h("p", { class: "good" }, "Nothing stands still."),
    ...(state.withheld.length ? [h("h2", {}, "Withheld"), table("Streams whose newest state is not published", [["stream", (row) => row.stream], ["since", (row) => time(row.since_us)], ["published through batch", (row) => number(row.published_batch), true], ["because", (row) => row.because]], state.withheld)] : []),
    h("h2", {}, "Streams"), h("div", { class: "cards" }, state.streams.map(card)),
    h("h2", {}, "Alarms now"), await alarms(queries),
    h("h2", {}, "Queries"),
    table("Queries", [
      ["query", (row) => h("a", { href: `?view=queries&query=${encodeURIComponent(row.query)}` }, row.query)],
      ["kind", (row) => row.kind], ["published", (row) => number(row.published), true], ["by repair", (row) => number(row.repaired), true],
      ["recall asked", (row) => (row.recall === null ? "–" : row.recall), true], ["found at once", (row) => (row.rows_found === null ? "–" : share(row.rows_found, row.rows_found + row.repaired)), true], ["rows waiting for repair", (row) => number(row.open), true],
      ["time", (row) => time(row.time_us)]], queries.rows),
    h("h2", {}, "Quality"), ...rulesNow(rules));
}

function rulesNow(rules) {
  const broken = rules.filter((row) => !row.success), report = (words, ...of) => h("a", { href: ["/quality", ...of.map(encodeURIComponent)].join("/") }, words);
  return [
    h("p", { class: broken.length ? "bad" : "good" }, rules.length ? [`${number(rules.length - broken.length)} of ${number(rules.length)} rules hold: `, report("the reports")] : "No rule has been checked yet."),
    ...(broken.length ? [table("Rules that do not hold", [["stream", (row) => report(row.stream, row.stream)], ["rule", (row) => row.says ?? row.expectation], ["observed", (row) => row.seen || cell(row.observed)], ["at", (row) => row.at]], broken)] : []),
  ];
}

function card(one) {
  const link = h("a", { href: `?view=explore&stream=${encodeURIComponent(one.stream)}` }, one.stream);
  if (one.rows === undefined) return h("article", { class: "card" }, h("h3", {}, one.stream), h("p", { class: "note" }, "not published yet"));
  const came = one.received + one.requeued, again = one.requeued ? ` + ${number(one.requeued)} requeued` : "", found = one.accepted + one.quarantined + one.duplicates;
  return h("article", { class: "card" }, h("h3", {}, link), facts([
    ["rows", number(one.rows)],
    ["newest", one.newest_us === null ? "–" : `${time(one.newest_us)}, ${span(Math.max(0, Date.now() * 1000 - one.newest_us))} ago`],
    ...(one.unchecked ? [["unchecked", h("span", { class: "warn" }, `${number(one.unchecked)} rows came too late to be compared and may repeat others`)]] : []),
    ...(one.missing.length ? [["without a value", h("span", { class: one.missing.some((each) => each.missing === each.accepted || each.last_with !== null) ? "warn" : "" }, one.missing.map((each) => `${each.column} ${share(each.missing, each.accepted)}${each.last_with === null ? "" : `, all since batch ${number(each.last_with)}`}`).join("; "))]] : []),
    ["late of accepted", `${number(one.late)} (${share(one.late, one.accepted)})`],
    ["late by, 95 %", span(one.lateness_p95_us)],
    ["balance", h("span", { class: came === found ? "good" : "bad" }, `received ${number(one.received)}${again} ${came === found ? "=" : "≠"} ${number(one.accepted)} accepted${one.revised ? ` (${number(one.revised)} revised by newer ones)` : ""} + ${number(one.quarantined)} quarantined${one.closed ? ` (${number(one.open)} open, ${number(one.closed)} closed)` : ""} + ${number(one.duplicates)} duplicates`)],
    ["waiting", `${number(one.manifests.waiting)} batches${one.lag ? `, ${number(one.lag)} messages` : ""}`],
    ["in quarantine", Object.keys(one.quarantine).length ? h("a", { href: `?view=quarantine&stream=${encodeURIComponent(one.stream)}` }, Object.entries(one.quarantine).map(([reason, count]) => `${reason} ${number(count)}`).join(", ")) : "nothing"],
  ]));
}

function stillStanding(state) {
  const found = state.jobs.filter((job) => !job.ok).map((job) => `${job.job} of ${job.stream} failed: ${job.error ?? ""}`);
  for (const beat of state.heartbeats) if (!beat.is_alive && beat.state !== "stopped") found.push(`${beat.kind} of ${beat.stream}: silent`);
  if (state.service && !state.service.is_alive && state.service.state !== "stopped") found.push("tidemark serve is not running");
  return found;
}

async function alarms({ version, rows: queries }) {
  const raising = queries.filter((row) => row.alarms !== null);
  const pages = await Promise.all(raising.map((row) => get(`/v/${version}/queries/${encodeURIComponent(row.query)}/alarms.json`, { limit: 10000 })));
  const rows = pages.flatMap((page, place) => page.rows.filter((row) => row.state === "raised").map((row) => ({ ...row, query: raising[place].query })));
  return table("Alarms", [["query", (row) => h("a", { href: `?view=queries&query=${encodeURIComponent(row.query)}` }, row.query)], ["raised", (row) => time(row.raised_us)], ["of", groups], ["final", (row) => cell(row.final)]], rows);
}

const OWN = new Set(["alarm", "state", "raised_at", "cleared_at", "changes", "merged_into", "final", "raised_us", "cleared_us", "query"]);
export const groups = (row) => Object.entries(row).filter(([name]) => !OWN.has(name)).map(([name, value]) => `${name}=${cell(value)}`).join(", ");
