"use strict";
// The script of the dashboard. Everything that it shows comes as JSON whose texts tgctl has made visible
// (package display), and is put in as text. It never makes HTML of a text: the page's policy would stop it.

const key = sessionStorage.getItem("key") || "";
const byId = (id) => document.getElementById(id);
const keptRows = 300; // of the stream

// el makes an element. Children are elements or texts.
function el(name, of, ...children) {
  const e = document.createElement(name);
  for (const [k, v] of Object.entries(of || {})) {
    if (k === "class") e.className = v;
    else if (k.startsWith("on")) e.addEventListener(k.slice(2), v);
    else if (v === true) e.setAttribute(k, "");
    else if (v !== false && v !== undefined) e.setAttribute(k, v);
  }
  e.append(...children.map((c) => (typeof c === "number" ? String(c) : c)));
  return e;
}

// soft returns a text that may be broken after its slashes, as a long path is better than anywhere.
const soft = (text) => text.split(/(?<=\/)(?!\/)/).flatMap((part, i) => (i ? [el("wbr"), part] : [part]));

// put sets the text of an element if it is another one: what reads a page aloud would say it again.
function put(e, text) {
  if (e.textContent !== text) e.textContent = text;
}

// call asks tgctl. It throws an Error with what to show.
async function call(path, body) {
  const options = { headers: { "Thoughtgate-Key": key }, credentials: "same-origin", cache: "no-store", redirect: "error" };
  if (body) {
    options.method = "POST";
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  let r;
  try {
    r = await fetch(path, options);
  } catch {
    throw new Error("tgctl dashboard does not answer. If it has ended, start it again.");
  }
  if (r.status === 403) outside();
  if (r.headers.get("Content-Type") !== "application/json") throw new Error(await r.text());
  const got = await r.json();
  if (!r.ok) throw new Error(got.error);
  return got;
}

// outside shows the form for a code: this browser is not, or no longer, let in.
function outside() {
  byId("enter").hidden = false;
  byId("main").hidden = true;
  byId("tabs").hidden = true;
}

let alertTimer;
function say(text, keep) {
  const a = byId("alert");
  a.textContent = text;
  a.hidden = !text;
  clearTimeout(alertTimer);
  if (text && !keep) alertTimer = setTimeout(() => { a.hidden = true; }, 12000);
}

const clock = (ms) => new Date(ms).toLocaleTimeString([], { hour12: false });
function span(ms) {
  const s = Math.max(0, Math.round(ms / 1000));
  if (s < 90) return s + " s";
  if (s < 5400) return Math.round(s / 60) + " min";
  if (s < 172800) return Math.round(s / 3600) + " h";
  return Math.round(s / 86400) + " d";
}

// ---- views ----

const views = [
  ["waiting", "Waiting"], ["calls", "Calls"], ["counts", "Counts"], ["search", "Search"],
  ["servers", "Servers"], ["sessions", "Sessions"], ["grants", "Grants"], ["policy", "Policy"],
];
let view = "waiting";
for (const [i, [id, name]] of views.entries()) {
  byId("tabs").append(el("button", { type: "button", id: "tab-" + id, title: String(i + 1), onclick: () => show(id) }, name));
}

function show(id) {
  view = id;
  for (const [v] of views) {
    byId("view-" + v).hidden = v !== id;
    if (v === id) byId("tab-" + v).setAttribute("aria-current", "page");
    else byId("tab-" + v).removeAttribute("aria-current");
  }
  put(byId("view-name"), views.find(([v]) => v === id)[1]);
  if (id === "counts") drawCounts();
  if (["servers", "sessions", "grants", "policy"].includes(id)) load(id);
}
show(view);

// load reads a view of tables again.
async function load(id) {
  try {
    const got = await call("/api/" + id);
    if (id === "policy") got.extra = backtestForm();
    drawView(byId("view-" + id), got);
  } catch (e) { say(e.message); }
}

function sheetOf(lines) {
  const dl = el("dl");
  let before = "";
  for (const l of lines || []) {
    if (l.name !== before) dl.append(el("dt", {}, l.name));
    dl.append(el("dd", { class: l.tone }, ...soft(l.value)));
    before = l.name;
  }
  return dl;
}

// long is the class of text that may be broken anywhere, or nowhere.
const long = (text) => (text.length > 24 ? " long" : text.length < 14 ? " short" : "");

// opens are the attributes of a row that opens something. Who comes to it by a key hears what it says.
const opens = (open, texts) => ({
  class: "row click", tabindex: "0", "aria-label": texts.filter(Boolean).join(", "), "aria-haspopup": "dialog", onclick: open,
  onkeydown: (e) => { if (e.key === "Enter") { e.preventDefault(); open(); } },
});

function tableOf(t, onrow) {
  const box = el("div", { class: "wide" });
  if (t.title) box.append(el("h2", {}, t.title));
  if (!t.rows || !t.rows.length) {
    if (t.none) box.append(el("p", { class: "none" }, t.none));
    return box;
  }
  const revoke = t.rows.some((r) => r.revoke);
  const body = el("tbody");
  for (const r of t.rows) {
    const tr = el("tr", onrow ? opens(() => onrow(r), r.cells.map((c) => c.text)) : { class: "row" });
    if (revoke) tr.append(el("td", {}, r.revoke ? el("button", { type: "button", class: "deny-button", "aria-label": "Revoke " + r.revoke, onclick: () => revokeGrant(r.revoke) }, "Revoke") : ""));
    for (const [i, c] of r.cells.entries()) tr.append(el("td", { "data-head": c.text ? t.heads[i].text.toLowerCase() : undefined, class: (t.heads[i].right ? "n " : "") + c.tone + long(c.text) }, ...soft(c.text)));
    body.append(tr);
    for (const n of r.notes || []) body.append(el("tr", { class: "note" }, el("td", { colspan: t.heads.length + (revoke ? 1 : 0), class: n.tone }, ...soft(n.text))));
  }
  const heads = t.heads.map((h) => el("th", { class: h.right ? "n" : "" }, h.text.toLowerCase()));
  box.append(el("table", {}, el("thead", {}, el("tr", {}, ...(revoke ? [el("th", { "aria-label": "to revoke it" })] : []), ...heads)), body));
  if (t.left) box.append(el("p", { class: "faint" }, "and " + t.left + " more"));
  return box;
}

function drawView(into, v, onrow) {
  const parts = [];
  if (v.sheet && v.sheet.length) parts.push(sheetOf(v.sheet));
  for (const t of v.tables || []) parts.push(tableOf(t, onrow));
  for (const l of v.lines || []) parts.push(el("pre", { class: l.tone }, l.text));
  if (v.extra) parts.push(v.extra);
  into.replaceChildren(...parts);
}

async function revokeGrant(id) {
  try {
    say((await call("/api/revoke", { id })).text);
  } catch (e) { say(e.message); }
  load("grants");
}

function dialog(title, ...parts) {
  byId("dialog-body").replaceChildren(el("h2", { id: "dialog-title" }, title), ...parts);
  if (!byId("dialog").open) byId("dialog").showModal();
  byId("dialog").scrollTo(0, 0); // the button at its end has the focus
}

async function showRecord(seq) {
  try {
    const v = await call("/api/record?seq=" + encodeURIComponent(seq));
    const body = el("div");
    drawView(body, v);
    dialog("Record " + seq, body);
  } catch (e) { say(e.message); }
}

// ---- what waits ----

let questions = [];
let selected = ""; // id of the question in detail
let detail = null;
let readable = 0; // since when all of it was on the screen; 0: not yet

function drawQuestions() {
  const list = byId("questions");
  list.replaceChildren(...questions.map((q) => el("li", {
    role: "option", id: "q-" + q.id, class: q.grave ? "grave" : "", onclick: () => select(q.id),
  },
  el("div", { class: "top" }, el("strong", {}, q.id + "  " + q.call), el("span", { class: "faint left", "data-expires": q.expires }, "")),
  el("div", {}, q.server + (q.agent && q.agent !== "-" ? ", for " + q.agent : "")),
  el("div", { class: "mono" }, q.short),
  q.danger ? el("div", { class: "deny" }, q.danger) : "",
  el("div", { class: "held" }, q.why),
  q.moved_on ? el("div", { class: "faint" }, "the agent moved on; an answer takes effect if it repeats the call") : "")));
  byId("none").hidden = questions.length > 0;
  point();
  put(byId("tab-waiting"), "Waiting" + (questions.length ? " (" + (questions.length + more) + ")" : ""));
  document.title = (questions.length ? "(" + (questions.length + more) + ") " : "") + "ThoughtGate";
  drawLeft();
}

let skew = 0; // of tgctl's clock
function drawLeft() {
  for (const e of document.querySelectorAll("[data-expires]")) put(e, span(Number(e.dataset.expires) - Date.now() - skew) + " left");
}
setInterval(drawLeft, 1000);

// point has the list say which of its questions is selected.
function point() {
  for (const li of byId("questions").children) li.setAttribute("aria-selected", String(li.id === "q-" + selected));
  if (byId("q-" + selected)) byId("questions").setAttribute("aria-activedescendant", "q-" + selected);
  else byId("questions").removeAttribute("aria-activedescendant");
}

async function select(id) {
  selected = id;
  point();
  byId("q-" + id)?.scrollIntoView({ block: "nearest" });
  try {
    const got = await call("/api/question?id=" + encodeURIComponent(id));
    if (selected === id) drawDetail(got);
  } catch (e) { say(e.message); }
}

function drawDetail(q) {
  detail = q;
  readable = 0;
  const parts = [el("h2", {}, q.id), sheetOf(q.sheet)];
  const end = el("span");
  if (q.params) parts.push(el("div", { class: "faint" }, "arguments, " + q.bytes + " bytes" + (q.cut ? ", of which this is the beginning:" : ":")), el("pre", { id: "params", tabindex: "0", role: "group", "aria-label": "Arguments" }, q.params + "\n", end));
  if (q.past && q.past.length) {
    const past = el("pre", { role: "group", "aria-label": "What happened before" });
    for (const l of q.past) past.append(el("span", { class: l.tone }, l.text + "\n"));
    parts.push(past);
  }
  if (q.open) {
    const note = el("input", { id: "note", maxlength: "500", placeholder: "reason, shown to the agent if you deny", "aria-label": "Reason", autocomplete: "off" });
    const bar = el("form", { class: "bar" }, note, el("button", { class: "deny-button", id: "deny" }, "Deny"));
    bar.addEventListener("submit", (e) => { e.preventDefault(); answer("deny"); });
    parts.push(bar);
    if (q.offer.approve) {
      const approve = el("form", { class: "bar" });
      if (q.offer.proof) approve.append(el("input", { id: "proof", type: "password", placeholder: "passphrase or code, for this call alone", "aria-label": "Passphrase or code", autocomplete: "off", required: true }));
      approve.append(el("button", { class: "approve", id: "approve", disabled: true, "aria-describedby": "unread" }, "Approve once"), el("span", { class: "faint", id: "unread" }, "Read the arguments to their end first."));
      approve.addEventListener("submit", (e) => { e.preventDefault(); answer("approve"); });
      parts.push(approve);
      const seen = new IntersectionObserver((all) => {
        if (!all.some((x) => x.isIntersecting)) return;
        seen.disconnect();
        // Nobody reads and presses within half a second; a click that was meant for something else may be on its way.
        setTimeout(() => {
          if (detail !== q) return;
          readable = Date.now();
          byId("approve").disabled = false;
          byId("unread").textContent = "";
        }, 500);
      });
      if (!q.params) parts.push(end);
      seen.observe(end);
    } else {
      parts.push(el("p", { class: "warn" }, q.offer.why));
    }
    parts.push(el("p", { class: "faint mono" }, "subject " + q.subject));
  }
  byId("detail").replaceChildren(...parts);
  if (innerWidth < 1000) byId("detail").scrollIntoView({ block: "nearest" });
}

async function answer(how) {
  const q = detail;
  if (!q || !q.open || how === "approve" && (!q.offer.approve || !readable)) return;
  const proof = byId("proof")?.value || "";
  if (how === "approve" && q.offer.proof && !proof) { byId("proof").focus(); return; }
  if (byId("proof")) byId("proof").value = "";
  for (const b of byId("detail").querySelectorAll("button")) b.disabled = true;
  try {
    const got = await call("/api/answer", { id: q.id, subject: q.subject, answer: how, note: byId("note").value, proof: how === "approve" ? proof : "" });
    say(got.text);
  } catch (e) { say(e.message, true); }
  if (selected === q.id) select(q.id);
}

function move(by) {
  if (!questions.length) return;
  const i = questions.findIndex((q) => q.id === selected);
  byId("questions").focus();
  select(questions[Math.min(questions.length - 1, Math.max(0, i + by))].id);
}

// ---- calls ----

let calls = [];
let paused = false;
let missed = 0;
let unread = "";
byId("pause").addEventListener("click", () => {
  paused = !paused;
  byId("pause").setAttribute("aria-pressed", String(paused));
  byId("pause").textContent = paused ? "Continue" : "Pause";
  if (!paused) drawCalls(calls, true);
});
byId("filter").addEventListener("input", () => drawCalls(calls, true));

function wanted(c) {
  const words = byId("filter").value.toLowerCase().split(/\s+/).filter(Boolean);
  const text = [c.end, c.agent, c.server, c.what, c.why].join(" ").toLowerCase();
  return words.every((w) => text.includes(w));
}

function callRow(c) {
  const what = el("td", { class: "mono long" }, c.what);
  if (c.why) what.append(el("small", {}, c.why));
  return el("tr", { id: "c-" + c.first, ...opens(() => showRecord(c.seq), [clock(c.time), c.end, c.agent, c.server, c.what, c.why]) },
    el("td", { class: "t" }, clock(c.time)), el("td", { class: c.tone + long(c.end) }, c.end), el("td", { class: long(c.agent) }, c.agent), el("td", { class: long(c.server) }, c.server), what);
}

// drawCalls puts new calls on top, and those that have changed in their places. The table never has more
// than keptRows rows.
function drawCalls(fresh, all) {
  const body = byId("calls").tBodies[0];
  if (all) body.replaceChildren();
  for (const c of fresh) {
    const old = byId("c-" + c.first);
    if (!wanted(c)) old?.remove();
    else if (old) old.replaceWith(callRow(c));
    else body.prepend(callRow(c));
  }
  while (body.rows.length > keptRows) body.lastElementChild.remove();
  byId("missed").textContent = unread ? "The record can't be read: " + unread : missed ? missed + " more were too many to show; all are in the record" : "";
}

// ---- counts ----

let counts = null;
const svg = (name, of, ...children) => {
  const e = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [k, v] of Object.entries(of)) e.setAttribute(k, v);
  e.append(...children);
  return e;
};

function drawCounts() {
  if (!counts || view !== "counts") return;
  const ends = [["forward", "forwarded"], ["hold", "held"], ["deny", "denied"]]; // the order of a tally
  const total = (t) => t.calls.reduce((a, b) => a + b);
  const tip = (t) => ends.map(([, name], i) => t.calls[i] + " " + name).join(", ");
  const top = Math.max(1, ...counts.hours.map(total));
  const w = 960, h = 186, base = 160, step = w / counts.hours.length;
  const sum = { calls: ends.map((_, i) => counts.hours.reduce((n, t) => n + t.calls[i], 0)) };
  const chart = svg("svg", { viewBox: `0 0 ${w} ${h}`, role: "img", "aria-label": tip(sum) + "; at most " + top + " in an hour" });
  for (const [i, t] of counts.hours.entries()) {
    let y = base;
    const g = svg("g", {}, svg("title", {}, clock(t.start).slice(0, 5) + ": " + tip(t)), svg("rect", { x: i * step, y: 0, width: step, height: base, fill: "transparent" }));
    for (const [at, [v]] of ends.entries()) {
      const height = t.calls[at] * (base - 14) / top;
      y -= height;
      g.append(svg("rect", { class: v + "-bar", x: i * step + 3, y, width: step - 6, height }));
    }
    chart.append(g);
    if (i % 4 === 0) chart.append(svg("text", { x: i * step + 3, y: h - 4 }, clock(t.start).slice(0, 5)));
  }
  chart.append(svg("text", { x: 0, y: 20 }, String(top)));
  const legend = el("p", { class: "legend faint" }, ...ends.map(([v, name]) => el("span", {}, el("i", { class: v + "-bar" }), name)));
  const bars = (title, all) => {
    const most = Math.max(1, ...all.map(total));
    return el("div", {}, el("h2", {}, title), el("table", { "aria-label": title }, el("tbody", {}, ...all.map((t) => {
      const track = el("div", { class: "track" });
      for (const [at, [v]] of ends.entries()) {
        const i = el("i", { class: v + "-bar" });
        i.style.width = 100 * t.calls[at] / most + "%";
        track.append(i);
      }
      return el("tr", { title: tip(t) }, el("th", { scope: "row", class: long(t.name) }, t.name), el("td", {}, track), el("td", { class: "n" }, total(t)), el("td", { class: "faint" }, ends.slice(1).map(([, name], i) => t.calls[i + 1] && t.calls[i + 1] + " " + name).filter(Boolean).join(", ")));
    }))));
  };
  const none = counts.hours.every((t) => !total(t));
  byId("view-counts").replaceChildren(el("h2", {}, "Calls of the last 24 hours"), ...(none ? [el("p", { class: "none" }, "No call was judged in this time.")] : [legend, chart,
    el("div", { class: "charts" }, bars("By agent", counts.agents), bars("By server", counts.servers), bars("By tool", counts.tools))]));
}

// ---- search, backtest ----

const fields = [["text", "text"], ["server", "server (glob)"], ["tool", "tool (glob)"], ["verdict", "verdict"], ["kind", "kind"], ["session", "session"], ["since", "since (2h, 7d)"]];
for (const [name, label] of fields) byId("search").append(el("label", {}, label, el("input", { name, spellcheck: "false" })));
byId("search").append(el("button", {}, "Search"));
byId("search").addEventListener("submit", async (e) => {
  e.preventDefault();
  const q = new URLSearchParams(new FormData(byId("search")));
  for (const [name] of fields) if (!q.get(name)) q.delete(name);
  byId("found").replaceChildren();
  const told = byId("found-told");
  told.textContent = "Searching…";
  try {
    const got = await call("/api/search?" + q);
    drawView(byId("found"), got, (r) => showRecord(r.seq));
    const n = got.tables[0].rows?.length || 0;
    told.textContent = n ? n + (n === 1 ? " record" : " records") : "";
  } catch (err) {
    told.textContent = "";
    say(err.message);
  }
});

function backtestForm() {
  const out = el("div"), total = el("pre", { role: "status", hidden: true });
  const tell = (what, tone) => {
    total.hidden = false;
    total.className = tone;
    total.textContent = what;
  };
  const text = el("textarea", { name: "text", rows: "12", maxlength: "32768", spellcheck: "false", hidden: true, "aria-label": "What the configuration would say" });
  const copy = el("button", { type: "button" }, "Try a rule");
  copy.addEventListener("click", async () => {
    try {
      text.value = (await call("/api/config")).text;
      text.hidden = false;
      text.focus();
      text.setSelectionRange(0, 0);
    } catch (e) { tell(e.message, "deny"); }
  });
  const form = el("form", { class: "bar", autocomplete: "off" }, el("label", {}, "configuration file", el("input", { name: "config", placeholder: "as on disk", spellcheck: "false" })),
    el("label", {}, "calls since", el("input", { name: "since", value: "7d" })), copy, el("button", {}, "Run the backtest"), text);
  form.addEventListener("submit", async (e) => {
    e.preventDefault();
    out.replaceChildren();
    tell("Judging the recorded calls again…", "none");
    const of = new FormData(form);
    try {
      const got = await call("/api/backtest", { config: of.get("config"), text: of.get("text"), since: of.get("since") });
      tell(got.lines.map((l) => l.text).join("\n"), got.lines[0].tone); // what it came to, or what is wrong
      drawView(out, { tables: got.tables });
    } catch (err) { tell(err.message, "deny"); }
  });
  return el("div", {}, el("h2", {}, "What would it have done?"),
    el("p", { class: "none" }, "Judges recorded calls by a configuration, such as one with a new rule, and lists those whose verdict would differ. Nothing takes effect. “Try a rule” opens a copy of the configuration, to write a rule into."), form, total, out);
}

// ---- the stream ----

let more = 0;
function take(u) {
  skew = u.now - Date.now();
  more = u.more;
  put(byId("state"), u.online ? "live" : "daemon not reached");
  byId("state").className = u.online ? "ok" : "deny";
  byId("state").title = u.lost;
  if (u.questions) {
    questions = u.questions;
    drawQuestions();
    if (selected && detail?.open && detail.id === selected && !questions.some((q) => q.id === selected)) select(selected); // it has ended
    if (!selected && questions.length && innerWidth >= 1000) select(questions[0].id);
  }
  if (unread !== u.unread) {
    unread = u.unread;
    drawCalls([], false);
  }
  if (u.calls) {
    missed += u.missed;
    const fresh = new Map(calls.concat(u.calls).map((c) => [c.first, c])); // a change takes the place of what was
    calls = [...fresh.values()].slice(-keptRows);
    if (!paused) drawCalls(u.calls, false);
  }
  if (u.counts) {
    counts = u.counts;
    drawCounts();
  }
}

// listen reads server-sent events. EventSource can't send the key.
async function listen() {
  const r = await fetch("/api/stream", { headers: { "Thoughtgate-Key": key }, credentials: "same-origin", cache: "no-store", redirect: "error" });
  if (r.status === 403) { outside(); return false; }
  if (!r.ok) { say(await r.text(), true); throw new Error(); }
  byId("main").hidden = false;
  const reader = r.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return true;
    text += value;
    for (let end; (end = text.indexOf("\n\n")) >= 0; text = text.slice(end + 2)) take(JSON.parse(text.slice("data: ".length, end)));
  }
}

// run reads the stream to its end, and then takes nothing more: who answers at this address later may be
// another program.
async function run() {
  try {
    if (!key || !await listen()) {
      outside();
      return;
    }
  } catch { /* as at the end */ }
  byId("main").replaceChildren(el("p", { class: "none" }, "tgctl dashboard has ended, or has cut this page off. If it still runs, load the page again."));
  byId("tabs").hidden = true;
  byId("dialog").close();
  byId("state").textContent = "ended";
  byId("state").className = "deny";
  document.title = "ThoughtGate";
}

// ---- keys ----

const keys = [
  ["j, k or arrows", "next, previous"], ["enter", "show all of it"], ["d", "deny: type a reason if you like, then enter"], ["a", "approve, once it has been read"],
  ["/", "filter or search"], ["1 to 8", "go to a view"], ["p", "pause the stream"], ["r", "read a view again"], ["esc", "back"], ["?", "these keys"],
];
function help() {
  dialog("Keys", el("table", {}, el("tbody", {}, ...keys.map(([k, what]) => el("tr", {}, el("td", {}, el("kbd", {}, k)), el("td", {}, what))))));
}
byId("help-button").addEventListener("click", help);

function moveRow(by) {
  const rows = [...byId("view-" + view).querySelectorAll("tr.row.click")];
  if (!rows.length) return;
  const i = rows.indexOf(document.activeElement);
  rows[Math.min(rows.length - 1, Math.max(0, i + by))].focus();
}

document.addEventListener("keydown", (e) => {
  if (e.ctrlKey || e.metaKey || e.altKey || byId("main").hidden || byId("dialog").open) return;
  if (e.target.matches("input, textarea")) {
    if (e.key === "Escape") e.target.blur();
    return;
  }
  const down = e.key === "j" || e.key === "ArrowDown", up = e.key === "k" || e.key === "ArrowUp";
  if ((down || up) && e.target.id === "params" && e.key.startsWith("Arrow")) return; // it scrolls
  if (down || up) (view === "waiting" ? move : moveRow)(down ? 1 : -1);
  else if (e.key === "?") help();
  else if (e.key === "/") { if (view !== "search") show("calls"); (view === "search" ? byId("search").elements.text : byId("filter")).focus(); }
  else if (e.key >= "1" && e.key <= "8") show(views[e.key - 1][0]);
  else if (e.key === "p") byId("pause").click();
  else if (e.key === "r") show(view);
  else if (view === "waiting" && e.key === "Enter" && e.target.id === "questions") byId("params")?.focus();
  else if (view === "waiting" && e.key === "d") byId("note")?.focus();
  else if (view === "waiting" && e.key === "a") (byId("proof") || byId("approve"))?.focus();
  else return;
  e.preventDefault();
});

run();
