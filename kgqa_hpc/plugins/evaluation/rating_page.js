"use strict";
// Rates the items of the JSON block. Foreign text reaches the page only as textContent.
// Saved under sample and annotator: {position, ratings: {id: {scores: {key: 1..5}, not_qualified, comment}}}.
const data = JSON.parse(document.getElementById("data").textContent);
const byId = (id) => document.getElementById(id);
const store = "kgqa-ratings:" + data.sample;
let annotator = "";
let state = { position: 0, ratings: {} };
let edited = {}; // the ratings changed here: a save keeps all others, which another tab may have changed
let current = 0; // the scale that a digit key sets

function make(tag, text) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  return element;
}

function load(key) {
  try { return localStorage.getItem(key); } catch { return null; }
}

function save() {
  try {
    state.ratings = { ...state.ratings, ...saved(annotator).ratings, ...edited };
    localStorage.setItem(store, annotator);
    localStorage.setItem(store + ":" + annotator, JSON.stringify(state));
    warn("");
  } catch {
    warn("This browser does not save: export before you close the page.");
  }
}

function warn(text) {
  byId("warning").textContent = text;
  byId("warning").hidden = !text;
}

function saved(name) {
  const fresh = { position: 0, ratings: {} };
  try {
    const found = JSON.parse(load(store + ":" + name));
    if (!found || typeof found.ratings !== "object") return fresh;
    return { position: Math.min(Math.max(found.position | 0, 0), data.items.length - 1), ratings: found.ratings };
  } catch {
    return fresh;
  }
}

function rating(item) {
  const none = { scores: {}, not_qualified: false, comment: "" };
  return Object.hasOwn(state.ratings, item.id) ? state.ratings[item.id] : none;
}

function isDone(item) {
  const one = rating(item);
  return one.not_qualified || data.scales.every((scale) => one.scores[scale.key]);
}

function change(edit) {
  const item = data.items[state.position];
  const one = structuredClone(rating(item));
  edit(one);
  const entry = { value: one, enumerable: true, writable: true, configurable: true };
  Object.defineProperty(state.ratings, item.id, entry);
  Object.defineProperty(edited, item.id, entry);
  save();
  show();
}

function begin(name) {
  annotator = name.trim();
  byId("item").hidden = !annotator;
  if (!annotator) return;
  state = saved(annotator);
  edited = {};
  byId("annotator").value = annotator;
  current = 0;
  show(); // without a save: after a reload the browser may not show the last writes yet
  window.scrollTo(0, 0);
}

function go(position) {
  if (position < 0 || position >= data.items.length) return;
  state.position = position;
  current = 0;
  save();
  show();
  window.scrollTo(0, 0);
}

function goUnrated() {
  const n = data.items.length;
  for (let step = 1; step <= n; step++) {
    const position = (state.position + step) % n;
    if (!isDone(data.items[position])) return go(position);
  }
  warn("Everything is rated: export.");
}

function show() {
  const item = data.items[state.position];
  const one = rating(item);
  const done = data.items.filter(isDone).length;
  byId("place").textContent = `Item ${state.position + 1} of ${data.items.length}` + (isDone(item) ? " · done" : "");
  byId("question").textContent = item.question;
  byId("answer").textContent = item.answer;
  const passed = data.items.filter((each) => rating(each).not_qualified).length;
  byId("count").textContent = `${done - passed} of ${data.items.length} rated` + (passed ? ` · ${passed} not qualified` : "");
  byId("progress").max = data.items.length;
  byId("progress").value = done;
  byId("not-qualified").checked = one.not_qualified;
  if (byId("comment").value !== one.comment) byId("comment").value = one.comment;
  byId("item").classList.toggle("skipped", one.not_qualified);
  data.scales.forEach((scale, i) => {
    for (const input of document.getElementsByName(scale.key)) input.checked = one.scores[scale.key] === Number(input.value);
    byId("scale-" + i).classList.toggle("current", i === current);
  });
}

function score(i, level) {
  current = Math.min(i + 1, data.scales.length - 1);
  change((one) => { one.scores[data.scales[i].key] = level; one.not_qualified = false; });
  byId("scale-" + current).scrollIntoView({ block: "nearest" });
}

function skip(yes) {
  change((one) => { one.not_qualified = yes; if (yes) one.scores = {}; });
}

function buildScales() {
  data.scales.forEach((scale, i) => {
    const box = make("fieldset");
    box.id = "scale-" + i;
    box.append(make("legend", scale.name));
    const levels = make("div");
    levels.className = "levels";
    scale.levels.forEach(([label, text], k) => {
      const choice = make("label");
      const input = make("input");
      Object.assign(input, { type: "radio", name: scale.key, value: k + 1 });
      input.addEventListener("change", () => score(i, k + 1));
      input.addEventListener("focus", () => { current = i; show(); });
      const head = make("b");
      head.append(input, ` ${k + 1}. ${label}`);
      choice.append(head, make("span", text));
      levels.append(choice);
    });
    box.append(levels);
    byId("scales").append(box);
  });
}

// A spreadsheet takes a cell that starts with one of these for a formula (cells.py undoes the apostrophe).
function cell(value) {
  const text = String(value);
  const guarded = /^'*[=+\-@\t\r]/.test(text) ? "'" + text : text;
  return /[",;\n\r]/.test(guarded) ? '"' + guarded.replaceAll('"', '""') + '"' : guarded;
}

function csv() {
  const header = ["ID", "Question", "Answer", "annotator", ...data.scales.map((s) => s.name), "not_qualified", "comment"];
  const rows = data.items.map((item) => {
    const one = rating(item);
    const scores = data.scales.map((scale) => one.scores[scale.key] ?? "");
    return [item.id, item.question, item.answer, annotator, ...scores, one.not_qualified ? 1 : "", one.comment];
  });
  return [header, ...rows].map((row) => row.map(cell).join(",") + "\n").join("");
}

function exportRatings() {
  if (!annotator) return warn("Write your name first.");
  const link = make("a");
  link.href = URL.createObjectURL(new Blob([csv()], { type: "text/csv" }));
  link.download = `ratings-${annotator.replace(/[^\p{L}\p{N}_-]+/gu, "_")}.csv`;
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

const keys = {
  ArrowUp: () => { current = Math.max(current - 1, 0); show(); },
  ArrowDown: () => { current = Math.min(current + 1, data.scales.length - 1); show(); },
  ArrowLeft: () => go(state.position - 1),
  ArrowRight: () => go(state.position + 1),
  Enter: () => go(state.position + 1),
  q: () => skip(!rating(data.items[state.position]).not_qualified),
  u: goUnrated,
  e: exportRatings,
  c: () => byId("comment").focus(),
};

function onKey(event) {
  if (event.ctrlKey || event.altKey || event.metaKey || event.isComposing) return;
  const target = event.target;
  if (target.matches("textarea, #annotator")) {
    if (event.key === "Escape") target.blur();
    if (event.key === "Enter" && target.id === "annotator") target.blur();
    return;
  }
  if (!annotator || (event.key === "Enter" && target.matches("button"))) return;
  const name = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const action = /^[1-5]$/.test(name) ? () => score(current, Number(name)) : Object.hasOwn(keys, name) && keys[name];
  if (!action) return;
  event.preventDefault();
  action();
}

// The question and its answer stay in sight below the header; a scale that is scrolled to lies below both.
new ResizeObserver(() => {
  const header = document.querySelector("header").offsetHeight;
  document.body.style.setProperty("--header", header + "px");
  document.body.style.setProperty("--covered", header + byId("pair").offsetHeight + 8 + "px");
}).observe(byId("pair"));

buildScales();
byId("annotator").addEventListener("change", (event) => begin(event.target.value));
byId("export").addEventListener("click", exportRatings);
byId("previous").addEventListener("click", () => go(state.position - 1));
byId("next").addEventListener("click", () => go(state.position + 1));
byId("unrated").addEventListener("click", goUnrated);
byId("not-qualified").addEventListener("change", (event) => skip(event.target.checked));
byId("comment").addEventListener("input", (event) => change((one) => { one.comment = event.target.value; }));
document.addEventListener("keydown", onKey);
begin(load(store) ?? "");
if (!annotator) byId("annotator").focus();
