// SPDX-License-Identifier: Apache-2.0
// The audit page: read-only views over /api/v1, chosen by the address's fragment.
"use strict";

const main = document.getElementById("main");

// --- small things ---

/// An element: el("td", {class: "number"}, "3.1", …children).
function el(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== undefined && value !== null && value !== false) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

async function get(path) {
  const answer = await fetch(path, { headers: { Accept: "application/json" } });
  const text = await answer.text();
  if (!answer.ok) {
    let message = text;
    try { message = JSON.parse(text).errors[0].message; } catch { /* not ours: as it is */ }
    throw new Error(`${answer.status}: ${message}`);
  }
  return JSON.parse(text);
}

const shown = (values) => Object.entries(values || {}).map(([key, value]) => `${key}=${value}`).join(" ") || "–";
const number = (value, digits = 4) => value === null || value === undefined ? "–" : Number(value.toPrecision(digits)).toString();
const percent = (value, digits = 1) => value === null || value === undefined ? "–" : `${(100 * value).toFixed(digits)}%`;
const date = (seconds) => seconds ? new Date(seconds * 1000).toISOString().replace("T", " ").slice(0, 16) + " UTC" : "never";
const bytes = (count) => count < 1e3 ? `${count} B` : count < 1e6 ? `${(count / 1e3).toFixed(1)} KB` : `${(count / 1e6).toFixed(1)} MB`;
const link = (view, ...parts) => "#/" + [view, ...parts.map(encodeURIComponent)].join("/");

/// A table with sortable columns. columns: [{title, value(row) for sorting, cell(row)?, number?, code?}].
function table(caption, columns, rows, sort = { column: 0, down: false }) {
  const body = el("tbody");
  const heads = columns.map((column, index) =>
    el("th", { scope: "col", class: column.number ? "number" : null },
       el("button", { type: "button", onclick: () => { sort = { column: index, down: sort.column === index && !sort.down }; fill(); } }, column.title)));
  function fill() {
    const { value } = columns[sort.column];
    const order = [...rows].sort((a, b) => {
      const x = value(a), y = value(b);
      const missing = (x === null || x === undefined) - (y === null || y === undefined);
      if (missing) return missing;
      const way = typeof x === "number" ? x - y : String(x).localeCompare(String(y), "en", { numeric: true });
      return sort.down ? -way : way;
    });
    heads.forEach((head, index) => {
      if (index === sort.column) head.setAttribute("aria-sort", sort.down ? "descending" : "ascending");
      else head.removeAttribute("aria-sort");
    });
    body.replaceChildren(...order.map((row) => el("tr", {}, ...columns.map((column) =>
      el("td", { class: column.number ? "number" : column.code ? "code" : null }, column.cell ? column.cell(row) : String(column.value(row) ?? "–"))))));
  }
  fill();
  return el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption },
            el("table", {}, el("thead", {}, el("tr", {}, ...heads)), body));
}

/// A labelled choice; calls `changed` with the value.
function choice(label, options, value, changed) {
  const select = el("select", { onchange: () => changed(select.value) },
                    ...options.map(([key, text]) => el("option", { value: key, selected: key === value ? "" : null }, text)));
  return el("label", {}, label, select);
}

const distinct = (rows, key) => [...new Set(rows.map(key))].sort();

// --- views: each returns its elements ---


async function winners() {
  const { winners: rows } = await get("/api/v1/audit/winners");
  if (rows.length === 0) return [el("h2", {}, "Winners"), el("p", {}, "Nothing has been measured yet: ", el("code", {}, "cubinary tune --store FILE"), " on a machine with a GPU.")];
  const filter = { text: "", kernel: "", device: "" };
  const holder = el("div"), count = el("p", { class: "quiet", role: "status" });
  const columns = [
    { title: "Kernel", value: (w) => w.kernel, cell: (w) => el("a", { href: link("kernel", w.kernel) }, w.kernel) },
    { title: "Types", value: (w) => shown(w.types) },
    { title: "Shape", value: (w) => shown(w.shape) },
    { title: "GPU", value: (w) => w.device_class, cell: (w) => el("span", { title: w.product }, w.device_class) },
    { title: "Time, µs", number: true, value: (w) => w.time_us, cell: (w) => number(w.time_us) },
    { title: "±", number: true, value: (w) => w.confidence, cell: (w) => percent(w.confidence) },
    { title: "Roofline", number: true, value: (w) => w.roofline, cell: (w) => el("span", { class: w.roofline >= 0.8 ? "good" : w.roofline >= 0.5 ? "" : "fair" }, percent(w.roofline, 0)) },
    { title: "Margin", number: true, value: (w) => w.margin, cell: (w) => w.ties > 1 ? `tie of ${w.ties}` : percent(w.margin) },
    { title: "vs untuned", number: true, value: (w) => w.speedup, cell: (w) => w.speedup ? `${number(w.speedup, 3)}x` : "–" },
    { title: "Origin", value: (w) => w.origin },
    { title: "Config", code: true, value: (w) => shown(w.config) },
  ];
  function fill() {
    const words = filter.text.toLowerCase().split(/\s+/).filter(Boolean);
    const kept = rows.filter((w) => (!filter.kernel || w.kernel === filter.kernel) && (!filter.device || w.device_class === filter.device) &&
      words.every((word) => `${w.kernel} ${shown(w.types)} ${shown(w.shape)} ${w.device_class} ${w.product} ${shown(w.config)} ${w.origin}`.toLowerCase().includes(word)));
    count.textContent = `${kept.length} of ${rows.length} winners`;
    holder.replaceChildren(table("Winners", columns, kept));
  }
  fill();
  return [
    el("h2", {}, "Winners"),
    el("div", { class: "controls" },
       el("label", {}, "Filter", el("input", { type: "search", placeholder: "bf16 rows=4096 …", oninput: (event) => { filter.text = event.target.value; fill(); } })),
       choice("Kernel", [["", "all"], ...distinct(rows, (w) => w.kernel).map((k) => [k, k])], "", (value) => { filter.kernel = value; fill(); }),
       choice("GPU", [["", "all"], ...distinct(rows, (w) => w.device_class).map((d) => [d, d])], "", (value) => { filter.device = value; fill(); }),
       el("a", { href: "/api/v1/audit/winners?format=csv" }, "CSV")),
    count, holder,
  ];
}

/// The assignments that all configs share: nothing tells them apart by those.
function inCommon(configs) {
  return configs.length < 2 ? [] : configs[0].split(" ").filter((word) => configs.every((config) => config.split(" ").includes(word)));
}

async function kernel(name) {
  const [rows, compare] = await Promise.all([
    get(`/api/v1/measurements?kernel=${encodeURIComponent(name)}`), losses(name)]);
  const result = [el("h2", {}, name)];
  if (rows.length === 0) return [...result, el("p", {}, "Nothing of this kernel has been measured.")];
  const jobs = distinct(rows, (m) => JSON.stringify([m.types, m.shape]));
  const plot = el("div", { class: "plot" }), data = el("div"), note = el("p", { class: "quiet", role: "status" });
  function show(job) {
    plots.clear();
    drawLosses();
    plot.replaceChildren();
    const ours = rows.filter((m) => JSON.stringify([m.types, m.shape]) === job);
    const devices = distinct(ours, (m) => m.device_class);
    const configs = new Map();
    for (const m of ours.filter((one) => one.status === "ok")) {
      const key = shown(m.config);
      if (!configs.has(key)) configs.set(key, { config: key, times: {} });
      const times = configs.get(key).times;
      // The run-off and later sessions measure again: the newest counts.
      if (!times[m.device_class] || times[m.device_class].id < m.id) times[m.device_class] = { us: m.median_us, interval: m.interval_us, id: m.id };
    }
    const best = (row) => Math.min(...Object.values(row.times).map((t) => t.us));
    const order = [...configs.values()].sort((a, b) => best(a) - best(b));
    const most = 24;
    const failed = ours.filter((m) => m.status !== "ok");
    note.textContent = `${order.length} configs measured${order.length > most ? `, the fastest ${most} drawn` : ""}` +
      (failed.length ? `; not usable: ${distinct(failed, (m) => m.status).map((s) => `${failed.filter((m) => m.status === s).length} ${s}`).join(", ")}` : "");
    const common = inCommon(order.map((row) => row.config));
    if (common.length) note.textContent += `; all with ${common.join(" ")}`;
    const drawn = order.slice(0, most).map((row) => ({ ...row, config: row.config.split(" ").filter((word) => !common.includes(word)).join(" ") || row.config }));
    plots.times(plot, "Time by config and GPU; the table below has the same numbers", drawn, devices);
    data.replaceChildren(table(`Measurements of ${name}`, [
      { title: "Config", code: true, value: (m) => shown(m.config) },
      { title: "GPU", value: (m) => m.device_class },
      { title: "Median, µs", number: true, value: (m) => m.status === "ok" ? m.median_us : null, cell: (m) => m.status === "ok" ? number(m.median_us) : "–" },
      { title: "± µs", number: true, value: (m) => m.interval_us, cell: (m) => m.status === "ok" ? number(m.interval_us, 2) : "–" },
      { title: "Error / tolerance", number: true, value: (m) => m.max_error, cell: (m) => number(m.max_error, 2) },
      { title: "Status", value: (m) => m.status, cell: (m) => el("span", { class: m.status === "ok" ? "" : "bad" }, m.suspect ? `${m.status}, suspect` : m.status) },
      { title: "Stage", value: (m) => m.stage },
      { title: "When", value: (m) => m.created, cell: (m) => date(m.created) },
    ], ours, { column: 2, down: false }));
  }
  const lossPlot = el("div", { class: "plot" });
  function drawLosses() {
    lossPlot.replaceChildren();
    if (compare.rows.length) plots.losses(lossPlot, "Loss of using another GPU's winner, by shape", compare.rows, compare.pairs);
  }
  result.push(
    el("div", { class: "controls" }, choice("Types and shape", jobs.map((job) => [job, JSON.parse(job).map(shown).join("  ·  ")]), jobs[0], show)),
    el("h3", {}, "Time by config"), plot, note,
    el("h3", {}, "Loss of another GPU's winner"),
    compare.rows.length ? lossPlot : el("p", { class: "quiet" }, "Needs measurements on two kinds of GPU that share shapes."),
    el("h3", {}, "All measurements"), data,
    el("p", {}, el("a", { href: link("manifest", name) }, "Manifest")));
  queueMicrotask(() => show(jobs[0]));
  return result;
}

/// How much slower each device class's winner is on each other one, by shape.
async function losses(name) {
  const { winners: rows } = await get(`/api/v1/audit/winners?kernel=${encodeURIComponent(name)}`);
  const devices = distinct(rows, (w) => w.device_class);
  const pairs = devices.flatMap((a) => devices.filter((b) => b !== a).map((b) => [a, b]));
  const shapes = new Map();
  await Promise.all(pairs.map(async ([a, b]) => {
    const answer = await get(`/api/v1/audit/compare?kernel=${encodeURIComponent(name)}&a=${encodeURIComponent(a)}&b=${encodeURIComponent(b)}`);
    for (const job of answer.jobs.filter((one) => typeof one.loss === "number")) {
      const shape = `${shown(job.types)} ${shown(job.shape)}`;
      if (!shapes.has(shape)) shapes.set(shape, { shape, losses: {} });
      shapes.get(shape).losses[`${a} on ${b}`] = 100 * (job.loss - 1);
    }
  }));
  return { rows: [...shapes.values()].sort((x, y) => x.shape.localeCompare(y.shape, "en", { numeric: true })), pairs: pairs.map(([a, b]) => `${a} on ${b}`) };
}

async function manifest(name) {
  const found = await get(`/api/v1/kernels/${encodeURIComponent(name)}`);
  return [el("h2", {}, name), facts([["Interface", el("code", {}, found.interface)]]), el("pre", { class: "scroll", tabindex: 0 }, el("code", {}, found.manifest))];
}

async function coverage() {
  const answer = await get("/api/v1/audit/coverage");
  const grade = { tuned: "good", budget: "good", measured: "", unverified: "bad", "nearest-shape": "fair", "other-class": "fair", untuned: "bad" };
  const filter = { text: "" }, holder = el("div");
  const fill = () => holder.replaceChildren(table("Coverage", [
    { title: "Kernel", value: (j) => j.kernel, cell: (j) => el("a", { href: link("kernel", j.kernel) }, j.kernel) },
    { title: "Target", value: (j) => j.target },
    { title: "Types", value: (j) => shown(j.types) },
    { title: "Shape", value: (j) => shown(j.shape) },
    { title: "GPU", value: (j) => j.device_class },
    { title: "Served with", value: (j) => j.coverage, cell: (j) => el("span", { class: grade[j.coverage] }, j.coverage) },
  ], answer.jobs.filter((j) => `${j.kernel} ${j.target} ${shown(j.types)} ${shown(j.shape)} ${j.device_class} ${j.coverage}`.toLowerCase().includes(filter.text))));
  fill();
  const counts = distinct(answer.jobs, (j) => j.coverage).map((c) => `${answer.jobs.filter((j) => j.coverage === c).length} ${c}`).join(", ");
  return [el("h2", {}, "Coverage"), el("p", {}, answer.jobs.length ? `${answer.jobs.length} jobs (kernel, types, shape, GPU): ${counts}` : "No GPU has been seen by this store."),
          el("div", { class: "controls" }, el("label", {}, "Filter", el("input", { type: "search", placeholder: "untuned", oninput: (event) => { filter.text = event.target.value.toLowerCase(); fill(); } })),
             el("a", { href: "/api/v1/audit/coverage?format=csv" }, "CSV")), holder];
}

async function compare(a, b) {
  const { winners: rows } = await get("/api/v1/audit/winners");
  const devices = distinct(rows, (w) => w.device_class);
  if (devices.length < 2) return [el("h2", {}, "Compare GPUs"), el("p", {}, "Needs measurements on two kinds of GPU; this store has ", String(devices.length), ".")];
  a = devices.includes(a) ? a : devices[0];
  b = devices.includes(b) ? b : devices.find((d) => d !== a);
  const answer = await get(`/api/v1/audit/compare?a=${encodeURIComponent(a)}&b=${encodeURIComponent(b)}`);
  const go = (x, y) => { location.hash = link("compare", x, y); };
  return [
    el("h2", {}, "Compare GPUs"),
    el("p", { class: "quiet" }, "What the first GPU's winners cost on the second."),
    el("div", { class: "controls" }, choice("Winners of", devices.map((d) => [d, d]), a, (value) => go(value, b)), choice("used on", devices.map((d) => [d, d]), b, (value) => go(a, value))),
    table("Comparison by kernel", [
      { title: "Kernel", value: (k) => k.kernel, cell: (k) => el("a", { href: link("kernel", k.kernel) }, k.kernel) },
      { title: "Jobs", number: true, value: (k) => k.jobs },
      { title: "Same", number: true, value: (k) => k.same }, { title: "Good", number: true, value: (k) => k.good },
      { title: "Slower", number: true, value: (k) => k.slower }, { title: "Broken", number: true, value: (k) => k.broken },
      { title: "Unmeasured", number: true, value: (k) => k.unmeasured },
      { title: "Mean loss", number: true, value: (k) => k.mean_loss, cell: (k) => k.mean_loss ? percent(k.mean_loss - 1) : "–" },
      { title: "Worst loss", number: true, value: (k) => k.worst_loss, cell: (k) => k.worst_loss ? percent(k.worst_loss - 1) : "–" },
      { title: "Verdict", value: (k) => k.slower + k.broken, cell: (k) => k.slower + k.broken ? el("span", { class: "bad" }, "needs its own tuning") : el("span", { class: "good" }, "fine") },
    ], answer.kernels),
  ];
}

async function releases() {
  const rows = await get("/api/v1/releases");
  if (rows.length === 0) return [el("h2", {}, "Releases"), el("p", {}, "None yet: ", el("code", {}, "cubinary release create NAME --store FILE"))];
  return [el("h2", {}, "Releases"), table("Releases", [
    { title: "Name", value: (r) => r.name, cell: (r) => el("a", { href: link("release", r.name) }, r.name) },
    { title: "Serial", number: true, value: (r) => r.serial },
    { title: "Channels", value: (r) => r.channels.join(", ") || "–" },
    { title: "Targets", value: (r) => r.targets.join(", ") },
    { title: "Kernels", number: true, value: (r) => r.kernels },
    { title: "Size", number: true, value: (r) => r.bytes, cell: (r) => bytes(r.bytes) },
    { title: "Signed", value: (r) => r.signed ? "yes" : "no", cell: (r) => el("span", { class: r.signed ? "good" : "bad" }, r.signed ? "yes" : "no") },
    { title: "Created", value: (r) => r.created, cell: (r) => date(r.created) },
    { title: "Expires", value: (r) => r.expires || Infinity, cell: (r) => date(r.expires) },
  ], rows, { column: 1, down: true })];
}

function facts(pairs) {
  return el("dl", { class: "facts" }, ...pairs.flatMap(([key, value]) => [el("dt", {}, key), el("dd", {}, value)]));
}

/// An entry's artifact, opening to where it comes from.
function provenance(entry) {
  return el("details", {}, el("summary", {}, el("code", {}, entry.artifact.slice(7, 19))),
            facts([["artifact", el("code", {}, entry.artifact)], ["size", bytes(entry.size)],
                   ...Object.entries(entry.provenance).map(([key, value]) => [key, el("code", {}, String(value))])]));
}

async function release(name) {
  const found = await get(`/api/v1/releases/${encodeURIComponent(name)}`);
  const result = [el("h2", {}, `Release ${found.name}`), facts([
    ["Index", el("code", {}, found.index)],
    ["Serial", String(found.serial)], ["Created", date(found.created)], ["Expires", date(found.expires)],
    ["Channels", found.channels.join(", ") || "none"],
    ["Signature", found.signed ? el("code", {}, found.signature) : el("span", { class: "bad" }, "not signed")],
    ["Signing keys", found.key_ids && found.key_ids.length ? el("code", {}, found.key_ids.join(" ")) : "none"],
  ])];
  for (const target of found.targets) {
    for (const part of target.kernels || []) {
      result.push(el("h3", {}, `${part.name || part.kernel} on ${target.target}`), table(`${part.name} on ${target.target}`, [
        { title: "Types", value: (e) => shown(e.types) },
        { title: "Shape", value: (e) => shown(e.shape) },
        { title: "Origin", value: (e) => e.origin },
        { title: "GPU", value: (e) => e.device_class || "any" },
        { title: "Time, µs", number: true, value: (e) => e.time_us, cell: (e) => number(e.time_us) },
        { title: "Config", code: true, value: (e) => shown(e.config) },
        { title: "Artifact", value: (e) => e.artifact, cell: provenance },
      ], part.entries, { column: 2, down: true }));
    }
  }
  return result;
}

// --- choosing the view ---

const views = { winners, kernel, manifest, coverage, compare, releases, release };
let turn = 0;

async function show() {
  const [view, ...parts] = location.hash.replace(/^#\/?/, "").split("/").map(decodeURIComponent);
  const chosen = Object.hasOwn(views, view) ? view : "winners";
  const mine = ++turn;
  plots.clear();
  for (const a of document.querySelectorAll("nav a")) {
    if (a.getAttribute("href") === `#/${chosen}`) a.setAttribute("aria-current", "page");
    else a.removeAttribute("aria-current");
  }
  let elements;
  try {
    elements = await views[chosen](...parts);
  } catch (error) {
    elements = [el("p", { class: "error", role: "alert" }, error.message)];
  }
  if (mine !== turn) return;  // another view was chosen meanwhile
  main.replaceChildren(...elements);
  document.title = `${main.querySelector("h2")?.textContent || "Cubinary"} · Cubinary audit`;
}

window.addEventListener("hashchange", () => { show().then(() => main.focus({ preventScroll: true })); });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", show);
get("/api/v1/store/stats").then((stats) => {
  document.getElementById("store").textContent = ["kernel", "artifact", "measurement", "release"].map((what) => `${stats[`${what}s`]} ${what}${stats[`${what}s`] === 1 ? "" : "s"}`).join(", ");
}).catch(() => {});
show();
