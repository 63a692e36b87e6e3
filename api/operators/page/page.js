// @ts-check
// What /ops shows. It asks this very process, draws what it is told and nothing else: what is not
// known is "unknown", what is old says how old. Whatever comes from the service is set as text.

const kPatience = 2500, kReadyPatience = 1000;  // Milliseconds,
const kPatient = 10_000;  // and with what somebody has asked for himself.
const kOld = 5000;  // What is overdue for so long has lost its colours.
const kUnknown = "unknown", kActions = "Actions";

/** @param {string} id */
const byId = (id) => /** @type {HTMLElement} */ (document.getElementById(id));
/** @type {(node: any) => HTMLElement} */
const html = (node) => node;
/** @param {string} id */
const input = (id) => /** @type {HTMLInputElement} */ (byId(id));
/** @param {string} id */
const dialog = (id) => /** @type {HTMLDialogElement} */ (byId(id));

// --- drawing: nodes stay where they are and change only where their text does, so that focus,
// selection and whoever listens are not disturbed every second.

/**
 * @param {string} tag
 * @param {Record<string, string>} [attributes]
 * @param {(Node | string)[]} children
 * @returns {HTMLElement}
 */
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  Object.entries(attributes).forEach(([name, value]) => made.setAttribute(name, value));
  made.append(...children);
  return made;
}

/**
 * @param {string} tag
 * @param {Record<string, string | number>} [attributes]
 * @param {(Node | string)[]} children
 */
function drawing(tag, attributes = {}, ...children) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", tag);
  Object.entries(attributes).forEach(([name, value]) => made.setAttribute(name, String(value)));
  made.append(...children);
  return made;
}

/** @param {Element} node @param {string} text */
function put(node, text) {
  if (node.textContent !== text) {
    node.textContent = text;
  }
}

/** @param {Element} node @param {string} name @param {string | null | undefined} value */
function mark(node, name, value) {
  if (value == null) {
    node.removeAttribute(name);
  } else if (node.getAttribute(name) !== value) {
    node.setAttribute(name, value);
  }
}

/**
 * The children of `host`, one for each item and in their order; those of the same key are kept.
 * @param {Element} host @param {any[]} items
 * @param {(item: any) => string} keyOf @param {() => Element} make
 * @param {(node: Element, item: any) => void} draw
 */
function each(host, items, keyOf, make, draw) {
  const old = new Map([...host.children].map((child) => [child.getAttribute("data-key"), child]));
  items.forEach((item, at) => {
    const key = keyOf(item);
    const node = old.get(key) ?? make();
    old.delete(key);
    mark(node, "data-key", key);
    draw(node, item);
    if (host.children[at] !== node) {
      host.insertBefore(node, host.children[at] ?? null);
    }
  });
  old.forEach((child) => child.remove());
}

// --- words

/** @param {unknown} value @returns {value is number} */
const isNumber = (value) => typeof value === "number" && Number.isFinite(value);
/** @param {unknown} value */
const list = (value) => (Array.isArray(value) ? value : null);
/** @param {unknown} value */
const text = (value) => (value == null || value === "" ? kUnknown : String(value));

/** 12345 or {value, exact}. @param {any} value @returns {string} */
function count(value) {
  if (value !== null && typeof value === "object") {
    return isNumber(value.value) ? count(value.value) + (value.exact === false ? "+" : "") : kUnknown;
  }
  return isNumber(value) ? value.toLocaleString("en", { maximumFractionDigits: 1 }) : kUnknown;
}

/** @param {unknown} value */
function credits(value) {
  const exact = /^(-?)(\d+)(\.\d+)?$/.exec(String(value ?? ""));
  return exact ? exact[1] + String(exact[2]).replace(/\B(?=(\d{3})+$)/g, ",") + (exact[3] ?? "") : kUnknown;
}

/** @param {unknown} seconds */
function duration(seconds) {
  if (!isNumber(seconds)) {
    return kUnknown;
  }
  const [of, unit] = seconds < 120 ? [seconds, "s"] : seconds < 7200 ? [seconds / 60, "min"]
    : seconds < 172_800 ? [seconds / 3600, "h"] : [seconds / 86_400, "d"];
  const digits = unit === "s" && of > 0 && of < 10 && !Number.isInteger(of) ? (of < 0.1 ? 3 : 1) : 0;
  return `${of.toFixed(digits)} ${unit}`;
}

/** @param {unknown} part */
const share = (part) => (isNumber(part) ? `${(part * 100).toFixed(part > 0 && part < 0.1 ? 1 : 0)} %` : kUnknown);

/** "14:03:12", and the day where it is another one. @param {unknown} at */
function clock(at) {
  const when = new Date(String(at ?? ""));
  if (Number.isNaN(when.getTime())) {
    return kUnknown;
  }
  const iso = when.toISOString();
  return (iso.slice(0, 10) === new Date().toISOString().slice(0, 10) ? "" : `${iso.slice(0, 10)} `) + iso.slice(11, 19);
}

/** How calls fail, by the names that logs and metrics have for it. @type {Record<string, string>} */
const kFaults = {
  retry_same: "briefly broken", throttled: "throttled", try_next: "failed", misconfigured: "misconfigured", broken_by_input: "broke over a text, or refused it without a reason",
  rejected: "refused a text", unsupported_input: "not able to", unknown_outcome: "no answer", out_of_time: "out of time",
};

/** "busy or broken 12, no answer 3" @param {any} errors */
function kinds(errors) {
  if (errors === null || typeof errors !== "object") {
    return kUnknown;
  }
  const all = Object.entries(errors).filter(([, times]) => times !== 0);
  return all.length === 0 ? "none" : all.map(([kind, times]) => `${kFaults[kind] ?? kind} ${count(times)}`).join(", ");
}

/** @param {any} worker */
const workerName = (worker) => `${text(worker.host)}:${text(worker.pid)}`;

// --- asking

/** How the token is told; null: nobody has typed one. It is here and nowhere else. @type {string | null} */
let token = null;

/**
 * @param {string} address @param {RequestInit} [options]
 * @returns {Promise<{status: number, late: boolean, body: any, text: string}>} status 0: no answer.
 */
async function fetched(address, options = {}, patience = kPatience) {
  const end = new AbortController();
  const timer = setTimeout(() => end.abort(), patience);
  try {
    const response = await fetch(address, {
      cache: "no-store", credentials: "omit", redirect: "error", referrerPolicy: "no-referrer", ...options, signal: end.signal,
    });
    const said = await response.text();
    let body = null;
    try {
      body = JSON.parse(said);
    } catch {
      // It is no JSON: there is only its status.
    }
    return { status: response.status, late: false, body, text: said };
  } catch {
    return { status: 0, late: end.signal.aborted, body: null, text: "" };
  } finally {
    clearTimeout(timer);
  }
}

/** @param {Awaited<ReturnType<typeof fetched>>} answer @param {string} what */
async function whyNot(answer, what) {
  if (answer.status === 503) {
    return text(answer.body?.error ?? "The database does not answer");
  }
  if (answer.status === 0 && !answer.late) {
    return "This API process does not answer: it is not running, or cannot be reached";
  }
  if (answer.late) {
    const ready = await fetched("readyz", {}, kReadyPatience);
    return ready.body?.database === false ? "The database does not answer"
      : ready.status !== 0 ? "The database is slow, or does not answer: a look takes longer than 2.5 s"
        : "This API process does not answer: it hangs, or the way to it is cut";
  }
  return answer.status === 200 ? `This API process answers ${what} with something else than this page understands`
    : `This API process answers ${what} with status ${answer.status}`;
}

let paused = false;

/** Something that is asked for again and again, and when it was true. */
class Source {
  /** @type {string | null} */ address = null;  // Null: nobody wants it.
  /** @type {any} */ body = null;
  /** @type {{monotonic: number, wall: number} | null} */ fresh = null;
  /** @type {string | null} */ failure = null;
  /** @type {string} */ version = "";
  failures = 0;
  asking = false;
  round = 0;
  /** @type {ReturnType<typeof setTimeout> | undefined} */ timer = undefined;

  /**
   * @param {number} every Milliseconds.
   * @param {(body: any) => string | null} versionOf What tells one state of it from the next; null:
   *   this is no such answer.
   * @param {() => void} heard
   * @param {() => RequestInit} options
   */
  constructor(every, versionOf, heard, options = () => ({})) {
    this.every = every;
    this.versionOf = versionOf;
    this.heard = heard;
    this.options = options;
  }

  /** Another question: what was known is of another thing. @param {string | null} address */
  ask(address) {
    this.address = address;
    this.body = this.fresh = this.failure = null;
    this.version = "";
    this.failures = 0;
    this.round += 1;
    this.asking = false;
    return this.now(true);
  }

  /**
   * @param {boolean} [byHand] Somebody wants it: what is paused is only what this page asks for by itself.
   */
  async now(byHand = false) {
    clearTimeout(this.timer);
    if (this.address === null || this.asking || paused && !byHand || document.hidden) {
      return;
    }
    const round = this.round;
    this.asking = true;
    const answer = await fetched(this.address, this.options());
    const version = answer.status === 200 && answer.body !== null ? this.versionOf(answer.body) : null;
    const failure = version === null ? await whyNot(answer, `/${this.address.split("?")[0]}`) : null;
    if (round !== this.round) {
      return;
    }
    this.asking = false;
    this.failure = failure;
    if (version === null) {
      this.failures += 1;
    } else {
      this.failures = 0;
      this.body = answer.body;
      // An answer that never changes is as old as it is, however often it comes.
      if (version !== this.version) {
        this.version = version;
        this.fresh = { monotonic: performance.now(), wall: Date.now() };
      }
    }
    this.heard();
    if (this.every > 0 && this.address !== null && !paused) {
      const wait = Math.min(this.every * 2 ** Math.min(this.failures, 2), Math.max(this.every, 4000));
      this.timer = setTimeout(() => this.now(), wait);
    }
  }

  /** Milliseconds; null: nothing was ever heard. By both clocks: one of them stands still while a machine sleeps. */
  age() {
    return this.fresh && Math.max(performance.now() - this.fresh.monotonic, Date.now() - this.fresh.wall, 0);
  }

  old() {
    const age = this.age();
    return age === null || this.failure !== null && age > kOld || this.every > 0 && age > kOld + (this.every > 2000 ? this.every : 0);
  }
}

/** @type {Record<string, Source>} */
const sources = {
  now: new Source(1000, (body) => (typeof body.verdict === "string" ? String(body.as_of) : null), () => drawNow()),
  // A minute is a row: it is new when the minute is over.
  minutes: new Source(15_000, (body) => (list(body.points) ? String(performance.now()) : null), () => drawHistory()),
  task: new Source(2000, (body) => (body.task ? String(performance.now()) : null), () => drawStory()),
  actions: new Source(10_000, (body) => (list(body.actions) ? String(performance.now()) : null), () => drawActions(),
    () => ({ headers: { Authorization: `Bearer ${token ?? ""}` } })),
};
const { now, minutes, task, actions } = /** @type {Record<"now" | "minutes" | "task" | "actions", Source>} */ (sources);

// --- tables

/**
 * What a cell shows: a text, with a second line, as a badge, as a link to a task; or buttons.
 * @typedef {string | {text: string, sub?: string, tone?: string, task?: string, buttons?: [string, () => void][]}} Cell
 * @typedef {[head: string, cell: (item: any) => Cell, look?: string]} Column
 */

/** @param {Element} td @param {Cell} cell */
function drawCell(td, cell) {
  const { text: said, sub = "", tone, task: id, buttons } = typeof cell === "string" ? { text: cell } : cell;
  const shape = buttons ? `buttons ${buttons.map(([name]) => name).join()}` : `${tone !== undefined} ${id !== undefined} ${sub !== ""}`;
  if (td.getAttribute("data-shape") !== shape) {
    mark(td, "data-shape", shape);
    if (buttons) {
      td.replaceChildren(element("div", { class: "row-actions" }, ...buttons.map(([name], at) => {
        const button = element("button", { class: "button danger", type: "button" }, name);
        // The row may be of something newer by then.
        button.addEventListener("click", () => /** @type {any} */ (td).buttons[at]?.[1]());
        return button;
      })));
    } else {
      const main = id !== undefined ? element("a", { class: "id" }) : element("span", tone !== undefined ? { class: "badge" } : {});
      td.replaceChildren(main, ...(sub !== "" ? [element("span", { class: "sub" })] : []));
    }
  }
  if (buttons) {
    /** @type {any} */ (td).buttons = buttons;
    return;
  }
  const main = /** @type {Element} */ (td.firstElementChild);
  put(main, said);
  main.classList.toggle("unknown", said === kUnknown);
  mark(main, "data-tone", tone);
  mark(main, "href", id === undefined ? null : `#${encodeURIComponent(id)}`);
  if (td.lastElementChild && sub !== "") {
    put(td.lastElementChild, sub);
  }
}

/** @param {string[]} names */
const headOf = (names) => element("thead", { role: "rowgroup" }, element("tr", { role: "row" },
  ...names.map((name) => element("th", { scope: "col", role: "columnheader", ...(name === kActions ? { "data-needs-token": "" } : {}) }, name))));

/** @param {number} at @param {string} name @param {string} [look] @param {string[]} said */
const cellOf = (at, name, look = "", ...said) => element(at === 0 ? "th" : "td", {
  role: at === 0 ? "rowheader" : "cell", ...(at === 0 ? { scope: "row" } : {}),
  ...(name === kActions ? { class: "acts", "data-needs-token": "" } : { class: look, "data-head": name }),
}, ...said);

/**
 * A table at the end of the section `id`. `most`: rows that are shown, the rest is counted.
 * @param {string} id @param {Column[]} columns @param {(item: any) => string} keyOf
 * @param {string} none @returns {(items: any[] | null) => void}
 */
function table(id, columns, keyOf, none, most = 40) {
  const body = element("tbody", { role: "rowgroup" });
  const head = headOf(columns.map(([name]) => name));
  const whole = element("table", { role: "table", "aria-labelledby": `${id}-h`, hidden: "" }, head, body);
  const says = element("p", { class: "unknown" }, kUnknown);
  byId(id).append(whole, says);
  return (items) => {
    mark(whole, "hidden", items === null || items.length === 0 ? "" : null);
    says.className = items === null ? "unknown" : "muted";
    put(says, items === null ? kUnknown : items.length === 0 ? none : items.length > most ? `And ${count(items.length - most)} more.` : "");
    each(body, (items ?? []).slice(0, most), keyOf,
      () => element("tr", { role: "row" }, ...columns.map(([name, , look], at) => cellOf(at, name, look))),
      (row, item) => columns.forEach(([, cell], at) => drawCell(/** @type {Element} */ (row.children[at]), cell(item))));
    showActions();
  };
}

/** @type {Record<string, string>} */
const tones = { ready: "good", working: "good", open: "bad", half_open: "warn", draining: "warn", drained: "", lost: "bad", closed: "good" };
/** @param {unknown} state @returns {Cell} */
const state = (state) => ({ text: text(state).replace("_", " "), tone: tones[text(state)] ?? "" });

const drawProviders = table("providers", [
  ["Provider", (p) => text(p.name)],
  ["Breaker", (p) => ({ .../** @type {any} */ (state(p.state)), sub: [
    p.since ? `since ${clock(p.since)}` : "", `ready at ${count(p.workers_ready)} of ${count(p.workers)} workers`,
    p.override ? `by hand ${text(p.override.state)}${p.override.until ? ` until ${clock(p.override.until)}` : ""}` : "",
  ].filter(Boolean).join(", ") })],
  ["In flight", (p) => ({ text: `${count(p.in_flight)} of ${p.limit === null ? "no known limit" : count(p.limit)}`, sub: `${count(p.waiting)} wait` }), "number"],
  ["p50 · p99", (p) => both(duration(p.p50_seconds), duration(p.p99_seconds)), "number"],
  ["Errors", (p) => kinds(p.errors), "long"],
  ["As a fallback", (p) => share(p.fallback_share), "number"],
  ["Paid, not delivered", (p) => count(p.paid_not_delivered), "number"],
  [kActions, (p) => ({ text: "", buttons: [
    ["Open", () => act("open_breaker", p.name)], ["Close", () => act("close_breaker", p.name)],
    ...(p.override ? [/** @type {[string, () => void]} */ (["As it was", () => act("clear_breaker", p.name)])] : []),
  ] })],
], (p) => text(p.name), "No worker tells of a provider.");

/** @param {string} one @param {string} other */
function both(one, other) {
  return one === kUnknown && other === kUnknown ? kUnknown : `${one} · ${other}`;
}

const drawWorkers = table("workers", [
  ["Worker", (w) => ({ text: workerName(w), sub: text(w.id) })],
  ["State", (w) => isSilent(w) ? { text: "silent", tone: "bad", sub: `was ${text(w.state)}` } : state(w.state)],
  ["In flight", (w) => gone(w) ? "none" : `${count(w.in_flight)} of ${count(w.places)}`, "number"],
  ["Renewal lag", (w) => gone(w) ? "none" : duration(w.renewal_lag_seconds), "number"],
  ["Heard of", (w) => isNumber(w.seen_seconds) ? `${duration(w.seen_seconds)} ago` : kUnknown, "number"],
  ["Version", (w) => text(w.version), "long"],
  ["Since", (w) => clock(w.started_at), "number"],
  [kActions, (w) => ({ text: "", buttons: w.state === "working" ? [["Drain", () => act("drain_worker", w.id)]] : [] })],
], (w) => text(w.id), "No worker: none was heard of within a day.");

const drawApis = table("apis", [
  ["Process", (a) => ({ text: text(a.id), sub: "" })],
  ["State", (a) => a.alive === true ? { text: "alive", tone: "good" } : a.alive === false ? { text: "gone", tone: "" } : kUnknown],
  ["Heard of", (a) => isNumber(a.seen_seconds) ? `${duration(a.seen_seconds)} ago` : kUnknown, "number"],
  ["Oldest hint unsent", (a) => a.alive === false ? "none" : a.unsent_seconds === 0 ? "none" : duration(a.unsent_seconds), "number"],
  ["Refused (503)", (a) => a.alive === false ? "none" : share(a.refused_share), "number"],
], (a) => text(a.id), "No API process was heard of within a day.", 20);

const drawStuck = table("stuck", [
  ["Task", (t) => ({ text: text(t.id), task: text(t.id) })],
  ["Waits for", (t) => ({ text: text(t.cause), sub: text(t.status) })],
  ["Open", (t) => duration(t.age_seconds), "number"],
  ["User", (t) => ({ text: text(t.user), sub: t.worker ? `at ${text(t.worker)}` : "" }), "long"],
  ["Claims", (t) => count(t.claims), "number"],
  [kActions, (t) => ({ text: "", buttons: [["Cancel", () => act("cancel_task", t.id)]] })],
], (t) => text(t.id), "None: no task is open for longer.", 30);

const drawFailures = table("failures", [
  ["Code", (f) => text(f.code)],
  ["Provider", (f) => (f.provider === null ? "none" : text(f.provider)), "long"],
  ["Tasks", (f) => count(f.tasks), "number"],
], (f) => `${f.code} ${f.provider}`, "None.", 30);

const drawUsers = table("users", [
  ["User", (u) => ({ text: text(u.user), sub: u.mail === null ? "" : text(u.mail) })],
  ["Open", (u) => count(u.open), "number"],
  ["Running", (u) => count(u.running), "number"],
  ["Of all places", (u) => share(u.share), "number"],
], (u) => text(u.user), "Nobody has an open task.", 10);

const drawLog = table("actions", [
  ["What", (a) => ({ text: text(a.action), sub: [a.target, a.detail].filter(Boolean).join(" ") })],
  ["When", (a) => clock(a.at), "number"],
  ["Who", (a) => text(a.actor), "long"],
  ["Why", (a) => text(a.reason), "long"],
  ["Result", (a) => ({ text: text(a.result), sub: a.message ?? "" }), "long"],
], (a) => `${a.at} ${a.action} ${a.target}`, "Nothing yet.", 50);

// --- how it stands

const kSilent = 2;  // Seconds: workers tell of themselves every second.
/** @param {any} worker */
const gone = (worker) => worker.state === "lost" || worker.state === "drained";
/** @param {any} worker */
const isSilent = (worker) => !gone(worker) && isNumber(worker.seen_seconds) && worker.seen_seconds >= kSilent;

/**
 * What is to be known beside the verdict, the worst first.
 * @param {any} seen @returns {{key: string, tone: string, text: string}[]}
 */
function notesOf(seen) {
  /** @type {{key: string, tone: string, text: string}[]} */
  const out = [];
  /** @param {string} key @param {string} tone @param {string} said */
  const say = (key, tone, said) => out.push({ key, tone, text: said });
  const { intake_paused: intake, stuck, tiles } = seen;
  if (intake) {
    say("intake", "bad", `Intake is paused since ${clock(intake.since)} by ${text(intake.by)}: ${text(intake.reason)}.`);
  }
  const workers = list(seen.workers) ?? [];
  const silent = workers.filter(isSilent);
  if (silent.length > 3) {
    say("silent", "bad", `${silent.length} workers have not been heard of for ${duration(Math.min(...silent.map((w) => w.seen_seconds)))} or longer: killed, frozen, or cut off from the database.`);
  } else {
    silent.forEach((w) => say(`silent ${w.id}`, "bad",
      `Worker ${workerName(w)} has not been heard of for ${duration(w.seen_seconds)}: killed, frozen, or cut off from the database. `
      + `If it is gone, others take over ${isNumber(w.in_flight) ? `its ${count(w.in_flight)} tasks` : "its tasks"} within 31 s.`));
  }
  workers.filter((w) => w.state === "lost" && isNumber(w.seen_seconds) && w.seen_seconds < 600).slice(0, 3)
    .forEach((w) => say(`lost ${w.id}`, "warn", `Worker ${workerName(w)} was lost ${duration(w.seen_seconds)} ago; it holds no work any more.`));
  const over = seen.provider_calls_of_seconds, lately = isNumber(over) ? ` in the last ${duration(over)}` : "";
  for (const p of list(seen.providers) ?? []) {
    const errors = Object.values(p.errors ?? {}).filter(isNumber).reduce((sum, n) => sum + n, 0);
    if (p.state !== "ready" && p.state !== "closed") {
      say(`provider ${p.name}`, "bad", `Provider ${text(p.name)} is ${text(p.state).replace("_", " ")}${p.since ? ` since ${clock(p.since)}` : ""}`
        + `${errors > 0 ? `: ${kinds(p.errors)}${lately}` : ""}. ${count(p.workers_ready)} of ${count(p.workers)} workers call it.`);
    } else if (errors > 0) {
      say(`provider ${p.name}`, "warn", `Provider ${text(p.name)} fails calls: ${kinds(p.errors)}${lately}.`);
    }
    if (isNumber(p.paid_not_delivered) && p.paid_not_delivered > 0) {
      say(`paid ${p.name}`, "warn", `${count(p.paid_not_delivered)} calls to ${text(p.name)} were paid for and not delivered.`);
    }
  }
  const open = ["ready", "running", "waiting_retry", "parked"].map((name) => tiles?.[name]?.value);
  const all = open.every(isNumber) ? open.reduce((sum, n) => sum + n, 0) : null;
  const [first] = list(seen.users) ?? [];
  if (first && isNumber(first.open) && all !== null && first.open >= 20 && first.open * 2 > all) {
    say(`user ${first.user}`, "warn", `One user has most of what is open: ${text(first.user)}${first.mail ? ` (${first.mail})` : ""}, ${count(first.open)} tasks.`);  // Not of how many: they were counted at another moment.
  }
  const stuckCount = (list(stuck?.causes) ?? []).reduce((sum, one) => sum + (isNumber(one.tasks) ? one.tasks : 0), 0);
  if (stuckCount > 0) {
    say("stuck", "warn", `${count(stuckCount)}${stuck.whole === false ? " or more" : ""} tasks are open for longer than ${duration(stuck.older_than_seconds)}.`);
  }
  if (isNumber(tiles?.dead) && tiles.dead > 0) {
    say("dead", "warn", `${count(tiles.dead)} messages could be read by nobody (no work is lost with them).`);
  }
  for (const a of list(seen.apis) ?? []) {
    if (a.alive && isNumber(a.unsent_seconds) && a.unsent_seconds >= 5) {
      say(`unsent ${a.id}`, "warn", `Hints of API process ${text(a.id)} have waited ${duration(a.unsent_seconds)} for the broker.`);
    }
  }
  return out;
}

/** Of a part of what is open: there may be more. @param {any} t @param {string} said */
const least = (t, said) => (said !== kUnknown && [t.ready, t.running, t.waiting_retry, t.parked].some((of) => of?.exact === false) ? `${said}+` : said);

/** @param {any} t @returns {[string, string][]} */
const figuresOf = (t) => [
  ["Oldest waiting", t.oldest_waiting_seconds === 0 ? "none" : least(t, duration(t.oldest_waiting_seconds))],
  ["Ready", count(t.ready)],
  ["Running", count(t.running)],
  ["Waiting for a retry", count(t.waiting_retry)],
  ["Parked", count(t.parked)],
  ["Done in a minute", count(t.done_per_minute)],
  ["Failed in a minute", t.failed_per_minute > 0 ? kinds(t.failed_by_code) : count(t.failed_per_minute)],
  ["Until drained", least(t, duration(t.drain_seconds))],
  ["Credits held", least(t, credits(t.credits_held))],
  ["Dead messages", count(t.dead)],
];

let announced = "";
/** What is read out: only when it says something else, not when a number in it moves. @param {string} said */
function announce(said) {
  const gist = said.replace(/\d[\d.,:]*/g, "#");
  if (gist !== announced) {
    announced = gist;
    put(byId("announced"), said);
  }
}

function drawVerdict() {
  const { body: seen, failure } = now;
  const age = now.age();
  const overdue = age !== null && age > kOld;
  const notes = seen && !failure && !overdue ? notesOf(seen) : [];
  let tone = "waiting", said = "Asking the service", last = "";
  if (failure !== null) {
    tone = "bad";
    said = failure;
    last = seen ? `Last heard ${duration(Math.floor((age ?? 0) / 1000))} ago, at ${clock(seen.as_of)}: ${seen.verdict}` : "Nothing was heard since this page was opened.";
  } else if (seen && overdue) {
    tone = "warn";
    said = paused ? "Paused: these numbers are old" : "Not known: these numbers are old";
    last = `At ${clock(seen.as_of)}: ${seen.verdict}`;
  } else if (seen) {
    said = seen.verdict;
    const trouble = notes.some((note) => note.tone === "bad");
    const rest = seen.health === "healthy" && notes.length === 0 ? "good" : "warn";
    tone = trouble || seen.health === "troubled" ? "bad" : rest;
    if (seen.health === "healthy" && trouble) {
      said = "Not quite healthy";
    }
  }
  mark(byId("verdict"), "data-tone", tone);
  put(byId("mark"), { good: "✓", bad: "!", warn: "?" }[tone] ?? "…");
  put(byId("sentence"), said);
  put(byId("last"), last);
  each(byId("notes"), notes.slice(0, 8), (note) => note.key, () => element("li"), (node, note) => {
    put(node, note.text);
    mark(node, "data-tone", note.tone);
  });
  document.title = `${{ good: "✓ ", bad: "! ", warn: "? " }[tone] ?? ""}${said} · Operations`;
  if (tone !== "waiting") {
    announce([said, ...notes.map((note) => note.text)].join(". "));
  }
}

function drawNow() {
  const seen = now.body;
  if (now.failure === null || seen === null) {
    each(byId("figures"), figuresOf(seen?.tiles ?? {}), ([name]) => name,
      () => element("div", {}, element("dt"), element("dd")),
      (node, [name, value]) => {
        const [dt, dd] = /** @type {[Element, Element]} */ (/** @type {unknown} */ (node.children));
        put(dt, name);
        put(dd, value);
        dd.classList.toggle("unknown", value === kUnknown);
      });
  }
  if (seen && now.failure === null) {
    const order = ["working", "draining", "lost", "drained"];
    drawProviders(list(seen.providers));
    drawWorkers(list(seen.workers)?.slice().sort((a, b) => order.indexOf(a.state) - order.indexOf(b.state)) ?? null);
    drawApis(list(seen.apis)?.slice().sort((a, b) => Number(b.alive) - Number(a.alive)) ?? null);
    drawStuck(seen.stuck ? list(seen.stuck.tasks) : null);
    put(byId("stuck-says"), seen.stuck ? `Open for longer than ${duration(seen.stuck.older_than_seconds)}${seen.stuck.whole === false ? "; there may be more than these" : ""}.` : "");
    each(byId("causes"), list(seen.stuck?.causes) ?? [], (one) => text(one.cause), () => element("li", { class: "badge", "data-tone": "warn" }),
      (node, one) => put(node, `${text(one.cause)}: ${count(one.tasks)}`));
    drawFailures(list(seen.failures));
    drawUsers(list(seen.users));
    put(byId("intake"), seen.intake_paused ? "Resume intake" : "Pause intake");
  }
  drawVerdict();
  drawAges();
}

function drawAges() {
  const seldom = now.body?.stuck?.as_of;
  document.querySelectorAll("[data-source]").forEach((block) => {
    const source = /** @type {Source} */ (sources[block.getAttribute("data-source") ?? ""]);
    const known = source.age();
    // What costs more is looked at more seldom.
    const late = block.hasAttribute("data-seldom") && seldom ? Math.max(Date.parse(now.body.as_of) - Date.parse(seldom), 0) : 0;
    const age = known === null ? null : known + late;
    const stale = source.address !== null && (source.old() || late > 0 && (age ?? 0) > kOld) && !(age === null && source.failure === null);
    mark(block, "data-stale", stale ? "" : null);
    const old = age === null ? "" : `${duration(Math.floor(age / 1000))} old`;
    put(/** @type {Element} */ (block.querySelector(".age")), source.address === null ? ""
      : source.every === 0 && age !== null && source.failure === null ? ""
        : (source.failure !== null && source !== now ? `${source.failure}; ` : "") + (old || (source.failure === null ? "asking" : "never heard")));
  });
  put(byId("when"), now.body ? `as of ${clock(now.body.as_of)}${paused ? ", paused" : ""}` : "");
}

// --- charts, by hand

const kRanges = /** @type {Record<string, number>} */ ({ "1h": 3600, "24h": 86_400, "30d": 2_592_000 });
let range = "1h";

/**
 * How many minutes a point is made of: the last span of several is not over yet.
 * @param {any} point @param {number} step
 */
const minutesOf = (point, step) => isNumber(point.minutes) && point.minutes > 0 ? point.minutes : step / 60;

/**
 * @typedef {{name: string, class: string, value: (point: any) => number | null}} Series
 * @typedef {{id: string, title: string, unit: (value: number) => string, stacked?: boolean, series: (points: any[], step: number) => Series[]}} Chart
 */

/** @param {unknown} value */
const numberOrNull = (value) => (isNumber(value) ? value : typeof value === "string" && value.trim() !== "" && isNumber(Number(value)) ? Number(value) : null);
/** @param {string} name @param {string} look @param {(point: any) => unknown} value @returns {Series} */
const line = (name, look, value) => ({ name, class: look, value: (point) => numberOrNull(value(point)) });

/** @type {Chart[]} */
const charts = [
  { id: "flow", title: "Arrivals and completions, a minute", unit: count, series: (_, step) => [
    line("arrivals", "s0", (p) => isNumber(p.arrivals) ? p.arrivals / minutesOf(p, step) : null),
    line("completions", "s2 dashed", (p) => isNumber(p.completions) ? p.completions / minutesOf(p, step) : null)] },
  { id: "wait", title: "Wait for a worker", unit: duration, series: () => [
    line("p50", "s0", (p) => p.wait_p50), line("p99", "s2 dashed", (p) => p.wait_p99)] },
  { id: "run", title: "Work on a task", unit: duration, series: () => [
    line("p50", "s0", (p) => p.run_p50), line("p99", "s2 dashed", (p) => p.run_p99)] },
  { id: "failed", title: "Failures by code, a minute", unit: count, stacked: true, series: (points, step) => {
    /** @type {Map<string, number>} */
    const totals = new Map();
    points.forEach((p) => Object.entries(p.failed ?? {}).forEach(([code, n]) => totals.set(code, (totals.get(code) ?? 0) + (numberOrNull(n) ?? 0))));
    const codes = [...totals].sort((a, b) => b[1] - a[1]).map(([code]) => code);
    const named = codes.length > 5 ? codes.slice(0, 4) : codes, others = codes.slice(named.length);
    const looks = ["s3", "s2", "s0", "s1", "s4"];
    /** @param {any} p @param {string[]} of */
    const sum = (p, of) => p.failed ? of.reduce((all, code) => all + (numberOrNull(p.failed[code]) ?? 0), 0) / minutesOf(p, step) : null;
    return [...named.map((code, at) => line(code, looks[at] ?? "s4", (p) => sum(p, [code]))),
      ...(others.length > 0 ? [line("others", "s4", (p) => sum(p, others))] : [])];
  } },
  { id: "credits", title: "Credits charged, a minute", unit: count, series: (_, step) => [
    line("credits", "s0", (p) => { const value = numberOrNull(p.credits); return value === null ? null : value / minutesOf(p, step); })] },
];

/** The next of 1, 2, 5, 10, … @param {number} value */
function niceTop(value) {
  const power = 10 ** Math.floor(Math.log10(Math.max(value, 0.001)));
  return [1, 2, 5, 10].map((n) => n * power).find((n) => n >= value) ?? value;
}

for (const { id, title } of charts) {
  byId("chart-list").append(element("figure", { class: "chart", id: `chart-${id}` }, element("h3", {}, title),
    element("p", { class: "legend" }), element("div"), element("figcaption"),
    element("details", {}, element("summary", {}, "As a table"), element("div"))));
}

/** @param {number} at Milliseconds. */
const tick = (at) => { const iso = new Date(at).toISOString(); return range === "30d" ? iso.slice(5, 10) : iso.slice(11, 16); };

/** @param {Chart} chart @param {any[]} points @param {number} step */
function drawChart({ id, title, unit, stacked, series: seriesOf }, points, step) {
  const [, legend, host, caption, details] = /** @type {HTMLElement[]} */ ([...byId(`chart-${id}`).children]);
  if (!legend || !host || !caption || !details) {
    return;
  }
  const series = seriesOf(points, step);
  const to = Date.now(), from = to - (kRanges[range] ?? 0) * 1000;
  const at = points.map((p) => new Date(String(p.at)).getTime());
  const values = series.map(({ value }) => points.map(value));
  const tops = stacked ? points.map((_, i) => values.reduce((sum, of) => sum + (of[i] ?? 0), 0)) : values.flat().filter(isNumber);
  const top = niceTop(Math.max(...tops, 0) || 1);
  const width = Math.max(host.clientWidth, 200), height = 144, left = 4, bottom = 18, up = 14;
  /** @param {number} time */
  const x = (time) => left + (time - from) / (to - from) * (width - 2 * left);
  /** @param {number} value */
  const y = (value) => height - bottom - value / top * (height - bottom - up);

  /** @param {number} s @param {number} i */
  const shown = (s, i) => {
    const value = values[s]?.[i];
    return value == null ? kUnknown : unit(value);
  };
  legend.replaceChildren(...series.map(({ name, class: look }, s) => {
    return element("span", {}, drawing("svg", { viewBox: "0 0 22 10", "aria-hidden": "true" }, stacked
      ? drawing("rect", { class: look, width: 22, height: 10 }) : drawing("path", { class: `line ${look}`, d: "M1 5h20" })),
    `${name} ${shown(s, points.length - 1)}`);
  }));
  if (series.length === 0) {
    legend.replaceChildren(points.length === 0 ? kUnknown : "none");
  }
  const svg = drawing("svg", { viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label":
    `${title}, ${range}: ${points.length === 0 ? kUnknown : series.map(({ name }, s) => {
      const known = /** @type {number[]} */ ((values[s] ?? []).filter(isNumber));
      return known.length === 0 ? `${name} ${kUnknown}` : `${name} ${unit(known.at(-1) ?? 0)} at last, ${unit(Math.max(...known))} at most`;
    }).join("; ") || "none"}` });
  for (const level of [0, 0.5, 1]) {
    svg.append(drawing("line", { class: "grid", x1: left, x2: width - left, y1: y(top * level), y2: y(top * level) }));
  }
  svg.append(drawing("text", { x: left, y: up - 4 }, unit(top)));
  [0, 0.5, 1].forEach((part) => svg.append(drawing("text", {
    x: left + part * (width - 2 * left), y: height - 4, "text-anchor": ["start", "middle", "end"][part * 2] ?? "start",
  }, tick(from + part * (to - from)))));
  const base = points.map(() => 0);
  series.forEach(({ class: look }, s) => {
    const of = values[s] ?? [];
    if (stacked) {
      const wide = Math.max(step * 1000 / (to - from) * (width - 2 * left), 1.5);
      of.forEach((value, i) => {
        if (value) {
          const under = base[i] ?? 0;
          svg.append(drawing("rect", { class: `bar-piece ${look}`, x: x(at[i] ?? 0) - wide / 2, width: wide, y: y(under + value), height: y(under) - y(under + value) }));
          base[i] = under + value;
        }
      });
      return;
    }
    // What is missing is a gap, not a way down to nothing.
    let path = "", open = false;
    of.forEach((value, i) => {
      const near = i > 0 && (at[i] ?? 0) - (at[i - 1] ?? 0) < step * 2500;
      if (value === null) {
        open = false;
      } else {
        path += `${open && near ? "L" : "M"}${x(at[i] ?? 0).toFixed(1)} ${y(value).toFixed(1)}${open && near ? "" : "h0.1"}`;
        open = true;
      }
    });
    svg.append(drawing("path", { class: `line ${look}`, d: path }));
  });
  const cursor = drawing("line", { class: "at", y1: up, y2: height - bottom, visibility: "hidden" });
  svg.append(cursor);
  svg.addEventListener("pointermove", (event) => {
    const time = from + (/** @type {PointerEvent} */ (event).offsetX - left) / (width - 2 * left) * (to - from);
    const i = at.reduce((best, one, j) => Math.abs(one - time) < Math.abs((at[best] ?? 0) - time) ? j : best, 0);
    if (points.length > 0) {
      [["x1", x(at[i] ?? 0)], ["x2", x(at[i] ?? 0)], ["visibility", "visible"]].forEach(([name, value]) => cursor.setAttribute(String(name), String(value)));
      put(caption, `${clock(points[i].at)}: ${series.map(({ name }, s) => `${name} ${shown(s, i)}`).join(", ")}`);
    }
  });
  svg.addEventListener("pointerleave", () => {
    cursor.setAttribute("visibility", "hidden");
    put(caption, "");
  });
  host.replaceChildren(svg);

  const twin = /** @type {HTMLElement} */ (details.lastElementChild);
  if (!/** @type {HTMLDetailsElement} */ (details).open) {
    twin.replaceChildren();
    return;
  }
  twin.replaceChildren(element("table", { role: "table", "aria-label": title }, headOf(["Time", ...series.map(({ name }) => name)]),
    element("tbody", { role: "rowgroup" }, ...points.map((p, i) => element("tr", { role: "row" }, cellOf(0, "Time", "", clock(p.at)),
      ...series.map(({ name }, s) => cellOf(1, name, "number", shown(s, i))))).reverse())));
}

function drawHistory() {
  const points = list(minutes.body?.points) ?? [];
  const step = isNumber(minutes.body?.step_seconds) ? minutes.body.step_seconds : 60;
  put(byId("history-says"), minutes.failure !== null ? "" : points.length === 0 && minutes.body ? "Nothing is known of this time." : "");
  charts.forEach((chart) => drawChart(chart, points, step));
  drawAges();
}

/** @param {string} wanted */
function showRange(wanted) {
  range = wanted;
  void minutes.ask(`ops/history?range=${wanted}`);
}

// --- one task, and its whole story

const kLanes = ["client", "api", "queue", "worker", "provider", "money"];
byId("lanes-head").append(element("span", {}, "when"), ...kLanes.map((lane) => element("span", {}, lane)));

/** @param {string} id */
function openTask(id) {
  if (decodeURIComponent(location.hash.slice(1)) !== id) {
    history.replaceState(null, "", `#${encodeURIComponent(id)}`);
  }
  put(byId("find-says"), "");
  task.every = 2000;
  void task.ask(`ops/task?id=${encodeURIComponent(id)}`);
}

function drawStory() {
  const { body, failure } = task;
  if (failure !== null && body === null) {
    const id = new URLSearchParams((task.address ?? "").split("?")[1]).get("id") ?? "";
    put(byId("find-says"), failure.endsWith("status 404") ? `There is no task ${id}.` : failure);
    byId("story").hidden = true;
    if (failure.endsWith("status 404") || failure.endsWith("status 400")) {
      void task.ask(null);
    }
  }
  if (body === null) {
    drawAges();
    return;
  }
  const { task: one, events } = body;
  const closed = ["succeeded", "failed", "canceled"].includes(one.status);
  // Nothing happens to it any more.
  task.every = closed ? 0 : 2000;
  put(byId("story-h"), `${text(one.id)}: ${text(one.status)}`);
  byId("story-cancel").hidden = closed;
  /** @param {unknown} value */
  const shown = (value) => typeof value === "string" && /^\d{4}-\d\d-\d\dT/.test(value) ? clock(value) : text(value);
  each(byId("story-facts"), Object.entries(one).filter(([name, value]) => typeof value !== "object" && name !== "id" && name !== "status"), ([name]) => name,
    () => element("div", {}, element("dt"), element("dd")), (node, [name, value]) => {
      put(/** @type {Element} */ (node.firstElementChild), name.replaceAll("_", " "));
      put(/** @type {Element} */ (node.lastElementChild), shown(value));
    });
  const all = list(events) ?? [];
  const first = new Date(String(all[0]?.at)).getTime();
  each(byId("lanes"), all.map((event, at) => ({ ...event, n: at })), (event) => String(event.n),
    () => element("li", {}, element("span", { class: "number" }),
      element("div", {}, element("span", { class: "lane" }), element("span"), element("span", { class: "sub" }))),
    (node, event) => {
      const [when, what] = /** @type {[Element, Element]} */ (/** @type {unknown} */ (node.children));
      const after = (new Date(String(event.at)).getTime() - first) / 1000;
      put(when, `${clock(event.at)}${event.n > 0 ? ` +${duration(after)}` : ""}`);
      const lane = kLanes.indexOf(event.lane);
      mark(what, "class", `what lane-${lane < 0 ? 0 : lane}`);
      put(/** @type {Element} */ (what.children[0]), `${text(event.lane)}: `);
      put(/** @type {Element} */ (what.children[1]), text(event.what));
      put(/** @type {Element} */ (what.children[2]), [event.detail, event.worker && `worker ${event.worker}`].filter(Boolean).join(" · "));
    });
  if (byId("story").hidden) {
    byId("story").hidden = false;
    byId("story-h").focus();
  }
  drawAges();
}

/** @param {string} asked */
async function find(asked) {
  byId("story").hidden = true;
  byId("found").replaceChildren();
  void task.ask(null);
  put(byId("find-says"), "Asking");
  const answer = await fetched(`ops/find?q=${encodeURIComponent(asked)}`, {}, kPatient);
  const tasks = list(answer.body?.tasks);
  if (answer.status !== 200 || tasks === null) {
    put(byId("find-says"), answer.status === 400 ? text(answer.body?.error) : await whyNot(answer, "/ops/find"));
    return;
  }
  put(byId("find-says"), tasks.length === 0 ? "Nothing is known by that. Ids that clients give are looked for among the newest 20,000 tasks." : `${count(tasks.length)} found${tasks.length >= 50 ? ", the newest" : ""}`);
  if (tasks.length === 1) {
    openTask(text(tasks[0].id));
    return;
  }
  each(byId("found"), tasks, (one) => text(one.id), () => element("li", {}, element("a", { class: "id" }), element("span"), element("span", { class: "muted" })), (node, one) => {
    const [link, status, rest] = /** @type {[Element, Element, Element]} */ (/** @type {unknown} */ (node.children));
    put(link, text(one.id));
    mark(link, "href", `#${encodeURIComponent(text(one.id))}`);
    put(status, text(one.status));
    put(rest, `${clock(one.created_at)} · ${text(one.user)}`);
  });
}

// --- what operators do

/** @type {Record<string, {name: string, says: (target: string) => string, seconds?: boolean, asks?: boolean}>} */
const deeds = {
  cancel_task: { name: "Cancel the task", says: (target) => `Ends ${target} at once; what it reserved is returned to its user.` },
  drain_worker: { name: "Drain the worker", says: (target) => `${target} takes nothing more, finishes what it has, and ends.` },
  open_breaker: { name: "Open the breaker", seconds: true, says: (target) => `No worker calls ${target} meanwhile; work goes to the next of the chain.` },
  close_breaker: { name: "Close the breaker", seconds: true, says: (target) => `Workers call ${target} meanwhile, however often it fails.` },
  clear_breaker: { name: "Leave the breaker to the workers", says: (target) => `What was set by hand for ${target} ends now.` },
  pause_intake: { name: "Pause intake", says: () => "Creations are refused (503) until intake is resumed. What was accepted is worked on." },
  resume_intake: { name: "Resume intake", says: () => "Creations are accepted again." },
  disable_key: { name: "Disable a key", asks: true, says: () => "It stops working within a second, for good." },
};
/** @type {{action: string, target: string} | null} */
let deed = null;

function showActions() {
  document.querySelectorAll("[data-needs-token]").forEach((node) => mark(node, "hidden", token === null ? "" : null));
  put(byId("unlock"), token === null ? "Unlock actions" : "Lock actions");
}

/** @param {string} action @param {string} target */
function act(action, target) {
  const { name, says, seconds = false, asks = false } = /** @type {{name: string, says: (target: string) => string, seconds?: boolean, asks?: boolean}} */ (deeds[action]);
  deed = { action, target };
  put(byId("action-h"), name);
  put(byId("action-says"), says(target));
  put(byId("action-do"), name);
  put(byId("action-problem"), "");
  put(byId("action-outcome"), "");
  put(byId("missed"), "");
  byId("action-do").hidden = false;
  mark(byId("action-do"), "aria-disabled", null);
  byId("seconds-field").hidden = !seconds;
  byId("target-field").hidden = !asks;
  input("seconds").value = "600";
  input("target").value = "";
  input("reason").value = "";
  dialog("action-dialog").showModal();
  (asks ? input("target") : input("reason")).focus();
}

/** @param {{status: number, body: any, text: string}} answer */
function notDone(answer) {
  const said = answer.body?.error ?? answer.body?.detail ?? answer.text.slice(0, 300).trim();
  return answer.status === 401 ? "Not done: the token is not right any more. Lock actions and unlock them anew."
    : answer.status === 0 ? "Not known: no answer came. Look at what operators did before you do it again."
      : `Not done (${answer.status})${said ? `: ${typeof said === "string" ? said : JSON.stringify(said)}` : ""}`;
}

async function perform() {
  if (deed === null || byId("action-do").getAttribute("aria-disabled") === "true") {
    return;
  }
  const mine = deed;
  const { action, target } = mine;
  const { seconds = false, asks = false } = deeds[action] ?? {};
  const reason = input("reason").value.trim(), whom = asks ? input("target").value.trim() : target;
  const lasting = Number(input("seconds").value);
  const problem = whom === "" && asks ? "Say which key." : seconds && !(Number.isInteger(lasting) && lasting >= 1 && lasting <= 86_400)
    ? "Between 1 and 86400 seconds." : reason === "" ? "Say why." : "";
  put(byId("action-problem"), problem);
  if (problem !== "") {
    (whom === "" && asks ? input("target") : reason === "" ? input("reason") : input("seconds")).focus();
    return;
  }
  mark(byId("action-do"), "aria-disabled", "true");
  const answer = await fetched("ops/actions", {
    method: "POST",
    headers: { "Content-Type": "application/json", Authorization: `Bearer ${token ?? ""}` },
    body: JSON.stringify({ action, target: whom, reason, ...(seconds ? { seconds: lasting } : {}) }),
  }, kPatient);
  const done = answer.status === 200 && answer.body?.done === true;
  if (deed !== mine) {  // Another is asked for by now; what was done is listed below.
    put(byId("missed"), done ? "" : `${deeds[action]?.name}: ${notDone(answer)}`);
  } else if (done) {
    put(byId("action-outcome"), `Done: ${text(answer.body.detail)}`);
    byId("action-do").hidden = true;
    /** @type {HTMLElement} */ (dialog("action-dialog").querySelector("[data-close]")).focus();
  } else {
    mark(byId("action-do"), "aria-disabled", null);
    put(byId("action-problem"), notDone(answer));
  }
  [actions, now, task].forEach((source) => void source.now(true));
}

async function unlock() {
  const typed = input("token").value;
  if (!/^[\x21-\x7e]+$/.test(typed)) {
    put(byId("token-problem"), typed === "" ? "Type the token." : "A token has no spaces and no letters with accents in it.");
    input("token").focus();
    return;
  }
  const answer = await fetched("ops/actions?limit=50", { headers: { Authorization: `Bearer ${typed}` } }, kPatient);
  if (answer.status !== 200) {
    put(byId("token-problem"), answer.status === 401 ? "That is not the token." : answer.status === 404
      ? "This API process has no OPS_TOKEN, so there are no actions here." : answer.body?.error ?? await whyNot(answer, "/ops/actions"));
    input("token").focus();
    return;
  }
  token = typed;
  input("token").value = "";
  dialog("token-dialog").close();
  showActions();
  void actions.ask("ops/actions?limit=50");
}

function lock() {
  token = null;
  void actions.ask(null);
  drawLog([]);
  showActions();
}

function drawActions() {
  if (token !== null && actions.body !== null) {
    drawLog(list(actions.body.actions));
  }
  drawAges();
}

// --- what is pressed

document.querySelectorAll("[data-close]").forEach((button) => button.addEventListener("click", () => {
  /** @type {HTMLDialogElement} */ (button.closest("dialog")).close();
}));
dialog("token-dialog").addEventListener("close", () => {
  input("token").value = "";
});
byId("unlock").addEventListener("click", () => {
  if (token !== null) {
    lock();
    return;
  }
  put(byId("token-problem"), "");
  dialog("token-dialog").showModal();
});
/** @param {string} id @param {() => unknown} what */
const onSubmit = (id, what) => byId(id).addEventListener("submit", (event) => {
  event.preventDefault();
  void what();
});
onSubmit("token-form", unlock);
onSubmit("action-form", perform);
onSubmit("find-form", () => input("q").value.trim() !== "" && find(input("q").value.trim()));
byId("intake").addEventListener("click", () => act(now.body?.intake_paused ? "resume_intake" : "pause_intake", ""));
byId("disable-key").addEventListener("click", () => act("disable_key", ""));
byId("story-cancel").addEventListener("click", () => act("cancel_task", text(task.body?.task?.id)));
document.querySelectorAll("input[name=range]").forEach((radio) => radio.addEventListener("change", () => showRange(/** @type {HTMLInputElement} */ (radio).value)));
document.querySelectorAll(".chart details").forEach((details) => details.addEventListener("toggle", drawHistory));
byId("pause").addEventListener("click", () => {
  paused = !paused;
  mark(byId("pause"), "aria-pressed", String(paused));
  Object.values(sources).forEach((source) => void source.now());
  drawVerdict();
});
document.addEventListener("visibilitychange", () => Object.values(sources).forEach((source) => void source.now()));
const openFromAddress = () => {
  const id = location.hash.slice(1);
  if (/^aud_\w+$/.test(id)) {
    openTask(id);
    byId("find").scrollIntoView();
  }
};
window.addEventListener("hashchange", openFromAddress);
let width = window.innerWidth;
window.addEventListener("resize", () => {
  if (window.innerWidth !== width) {
    width = window.innerWidth;
    drawHistory();
  }
});

showActions();
setInterval(() => {
  drawVerdict();
  drawAges();
}, 500);
void now.ask("ops/now");
showRange(range);
openFromAddress();
