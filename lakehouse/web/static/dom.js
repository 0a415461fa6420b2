// Elements without markup: whatever comes from data becomes text, never HTML.

export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (name === "style") for (const [property, one] of Object.entries(value)) element.style.setProperty(property, one ?? "");
    else if (value === true) element.setAttribute(name, "");
    else if (value !== false && value !== null && value !== undefined) element.setAttribute(name, value);
  }
  element.append(...children.flat().filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

export const number = (value) =>
  value === null || value === undefined ? "–" : Number(value).toLocaleString("en", Number.isInteger(value) ? {} : { maximumSignificantDigits: 10 });

export function time(us) {
  if (us === null || us === undefined) return "–";
  return new Date(Number(us) / 1000).toISOString().replace("T", " ").replace(/\.?0*Z$/, "").replace(/:00$/, "");
}

export function span(us) {
  if (us === null || us === undefined) return "–";
  const units = [["d", 864e8], ["h", 36e8], ["min", 6e7], ["s", 1e6], ["ms", 1e3], ["µs", 1]];
  const [name, size] = units.find(([, size]) => us >= size) ?? units.at(-1);
  return `${number(Math.round((us / size) * 10) / 10)} ${name}`;
}

export function bytes(size) {
  const [name, of] = [["GiB", 2 ** 30], ["MiB", 2 ** 20], ["KiB", 2 ** 10]].find(([, of]) => size >= of) ?? ["bytes", 1];
  return `${number(Math.round((size / of) * 10) / 10)} ${name}`;
}

// All and nothing are said of all and nothing alone: what is nearly that keeps its second digit.
export function share(part, whole) {
  if (!whole) return "–";
  const percent = (100 * part) / whole, text = percent.toFixed(1);
  if (text === "100.0" && part < whole) return `${Math.min(99.99, Math.floor(100 * percent) / 100).toFixed(2)} %`;
  return text === "0.0" && part > 0 ? `${Math.max(0.01, Math.ceil(100 * percent) / 100).toFixed(2)} %` : `${text} %`;
}

export function cell(value) {
  if (value === null || value === undefined) return "–";
  if (typeof value === "boolean") return value ? "yes" : "no";
  if (typeof value === "number") return number(value);
  if (typeof value === "object") return JSON.stringify(value);
  return value;
}

// columns: [[heading, row => text or element, is a number?], ...]
export function table(caption, columns, rows) {
  if (!rows.length) return h("p", { class: "note" }, `${caption}: none`);
  const kind = (isNumber) => (isNumber ? { class: "number" } : {});
  return h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    h("table", {},
      h("thead", {}, h("tr", {}, columns.map(([name, , n]) => h("th", { scope: "col", ...kind(n) }, name)))),
      h("tbody", {}, rows.map((row) => h("tr", {}, columns.map(([, show, n]) => h("td", kind(n), show(row))))))));
}

export const facts = (pairs) =>
  h("dl", {}, pairs.filter(([, value]) => value !== null).flatMap(([name, value]) => [h("dt", {}, name), h("dd", {}, value)]));

// A text as a shell reads it as one word.
export const shell = (text) => `'${text.replaceAll("'", "'\\''")}'`;

export function copyable(name, text) {
  const button = h("button", { type: "button", onclick: async () => {
    await navigator.clipboard.writeText(text);
    button.textContent = "copied";
    setTimeout(() => { button.textContent = `Copy ${name}`; }, 1500);
  } }, `Copy ${name}`);
  return h("div", {}, button, h("pre", {}, text));
}
