// Questions to the server. A problem becomes an error that says what the server said.

export class Problem extends Error {
  constructor(status, document) {
    super(document.detail || document.title || `status ${status}`);
    this.status = status;
    this.title = document.title || "Error";
  }
}

export async function get(path, parameters = {}, signal) {
  const response = await fetch(`${path}?${encoded(parameters)}`, { headers: { Accept: "application/json" }, signal });
  const document = await response.json().catch(() => ({ title: `status ${response.status}` }));
  if (!response.ok) throw new Problem(response.status, document);
  return document;
}

export function encoded(parameters) {
  const found = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== null && one !== undefined && one !== "") found.append(name, one);
    }
  }
  return found.toString();
}

// Tells of each new version, so that what is shown can say that there is a newer one. A browser keeps six connections
// to a server, of all tabs together: only a tab that is seen holds one for this.
export function follow(tell) {
  let source = null;
  const close = () => { source?.close(); source = null; };
  const open = () => {
    if (source || document.visibilityState === "hidden") return;
    source = new EventSource("/events");
    source.addEventListener("version", (event) => tell(JSON.parse(event.data).version));
    source.addEventListener("error", () => tell(null));
  };
  document.addEventListener("visibilitychange", () => (document.visibilityState === "hidden" ? close() : open()));
  addEventListener("pagehide", close);
  addEventListener("pageshow", open);
  open();
}
