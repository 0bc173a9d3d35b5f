"use strict";
// The explorer: records of the page's sample, filtered, with their evidence. Foreign text is only ever set as text.
const PAGE = 20;
const data = JSON.parse(document.getElementById("data").textContent);
const form = document.getElementById("filters");
const shown = { accepted: PAGE, rejected: PAGE };

const maker = (space) => (name, attributes, ...inner) => {
  const node = document.createElementNS("http://www.w3.org/" + space, name);
  for (const [key, value] of Object.entries(attributes || {})) node.setAttribute(key, value);
  node.append(...inner);
  return node;
};
const make = maker("1999/xhtml"), draw = maker("2000/svg");
const distinct = (values) => [...new Set(values)].sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
// A path tells its evidence in steps: an entity, a relation, a target each.
for (const record of data.records) {
  const steps = (record.more || {}).steps;
  if (record.nodes || !Array.isArray(steps) || !steps.length || !steps.every((s) => s && s.entity && s.target)) continue;
  const names = [...new Set(steps.flatMap((s) => [s.entity, s.target]))];
  record.nodes = names.map((name) => ({ id: "", name, type: "" }));
  record.edges = steps.map((s) => [names.indexOf(s.entity), names.indexOf(s.target)]);
  record.edge_labels = steps.map((s) => s.relation);
  delete record.more.steps;
}
const nodesOf = (record) => record.nodes || [];
// Types of nodes by how many there are: the first seven have a colour each, all others the eighth.
const kinds = new Map();
for (const node of data.records.flatMap(nodesOf)) kinds.set(node.type, (kinds.get(node.type) || 0) + 1);
const order = [...kinds.keys()].sort((a, b) => kinds.get(b) - kinds.get(a) || (a < b ? -1 : 1));
const colour = (type) => "t" + Math.min(order.indexOf(type), 7);

function fill(name, values) {
  const select = form.elements[name];
  for (const value of distinct(values)) select.append(make("option", { value }, value));
}
fill("group", data.records.map((r) => r.group));
fill("type", data.records.flatMap((r) => nodesOf(r).map((n) => n.type)).filter(Boolean));
fill("reason", data.records.filter((r) => r.reason).map((r) => r.reason));
fill("criterion", data.records.flatMap((r) => Object.entries(r.verdicts || {}).flatMap(([judge, verdict]) =>
  Object.entries(verdict || {}).filter(([, v]) => typeof v === "boolean").map(([field]) => judge + ": " + field))));

function fits(record) {
  const { group, type, reason, criterion, verdict, text } = form.elements;
  if (group.value && record.group !== group.value) return false;
  if (type.value && !nodesOf(record).some((n) => n.type === type.value)) return false;
  if (reason.value && record.reason !== reason.value) return false;
  if (criterion.value) {
    const at = criterion.value.indexOf(": ");
    const said = ((record.verdicts || {})[criterion.value.slice(0, at)] || {})[criterion.value.slice(at + 2)];
    if (typeof said !== "boolean" || (verdict.value && String(said) !== verdict.value)) return false;
  }
  const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
  const all = [record.id, record.question, record.answer, ...nodesOf(record).map((n) => n.name)].join(" ").toLowerCase();
  return words.every((word) => all.includes(word));
}

function permutations(list) {
  if (list.length < 2) return [list];
  return list.flatMap((one, i) => permutations([...list.slice(0, i), ...list.slice(i + 1)]).map((rest) => [one, ...rest]));
}
// Places on a circle with the fewest crossings; the order of the nodes where there are many.
function places(count, edges) {
  const at = (i) => [Math.cos(2 * Math.PI * i / count - Math.PI / 2), Math.sin(2 * Math.PI * i / count - Math.PI / 2)];
  const plain = [...Array(count).keys()];
  let best = plain, least = Infinity;
  for (const rest of count > 1 && count < 7 ? permutations(plain.slice(1)) : [plain.slice(1)]) {
    const order = [0, ...rest], pairs = edges.map(([a, b]) => [order[a], order[b]].sort((x, y) => x - y));
    let cost = 0;
    pairs.forEach(([a, b], i) => {
      cost += 0.01 * Math.min(b - a, count - b + a);
      for (const [c, d] of pairs.slice(i + 1)) if ((a < c && c < b && b < d) || (c < a && a < d && d < b)) cost += 1;
    });
    if (cost < least - 1e-9) { least = cost; best = order; }
  }
  return plain.map((i) => at(best[i]));
}

function graph(record) {
  const nodes = nodesOf(record), edges = record.edges || [], labels = record.edge_labels || [];
  const svg = draw("svg", { class: "graph", viewBox: "0 0 480 300", role: "img" });
  const told = edges.map(([a, b], i) => nodes[a].name + " " + (labels[i] || "to") + " " + nodes[b].name).join("; ");
  svg.append(draw("title", {}, "Evidence: " + told));
  const spots = places(nodes.length, edges).map(([x, y]) => [240 + 130 * x, 150 + 105 * y]);
  const twice = new Map();
  edges.forEach(([a, b], i) => {
    const key = Math.min(a, b) + " " + Math.max(a, b), turn = twice.get(key) || 0;
    twice.set(key, turn + 1);
    const [x1, y1] = spots[a], [x2, y2] = spots[b], length = Math.hypot(x2 - x1, y2 - y1) || 1;
    const side = (a < b ? 1 : -1) * turn * 26, nx = -(y2 - y1) / length, ny = (x2 - x1) / length;
    const mx = (x1 + x2) / 2 + side * nx, my = (y1 + y2) / 2 + side * ny;
    const angle = Math.atan2(y2 - my, x2 - mx), tx = x2 - 12 * Math.cos(angle), ty = y2 - 12 * Math.sin(angle);
    const wing = (turned) => (tx - 8 * Math.cos(angle + turned)) + "," + (ty - 8 * Math.sin(angle + turned));
    const part = draw("g", { "data-ends": a + " " + b });
    part.append(draw("path", { d: `M${x1},${y1} Q${mx},${my} ${tx},${ty}` }));
    part.append(draw("polygon", { class: "head", points: `${tx},${ty} ${wing(0.45)} ${wing(-0.45)}` }));
    part.append(draw("text", { class: "kind", x: mx, y: my - 3, "text-anchor": "middle" }, cut(labels[i] || "", 26)));
    svg.append(part);
  });
  const labels_at = [];
  nodes.forEach((node, i) => {
    const [x, y] = spots[i], part = draw("g", { "data-node": i });
    part.append(draw("circle", { cx: x, cy: y, r: 9, class: colour(node.type) }));
    const text = cut(node.name, 30), half = 3.6 * text.length, at = Math.min(Math.max(x, half), 480 - half);
    let line = y + (y < 150 ? -14 : 24); // away from the middle, and farther where another name stands already
    while (labels_at.some(([a, b, c]) => Math.abs(a - at) < b + half && Math.abs(c - line) < 13)) line += y < 150 ? -14 : 14;
    labels_at.push([at, half, line]);
    const label = draw("text", { x: at, y: line, "text-anchor": "middle" }, text);
    part.append(draw("title", {}, node.name + (node.id && " (" + node.type + ", " + node.id + ")")), label);
    svg.append(part);
  });
  return svg;
}
const cut = (text, most) => text.length > most ? text.slice(0, most - 1) + "…" : text;

// Lower case of the same length: only the Turkish İ would become two signs.
const lower = (text) => text.replaceAll("\u0130", "i").toLowerCase();
// Letters of scripts that part words by blanks: CAT is no name within indiCATion.
const LETTER = /[\p{Script=Latin}\p{Script=Greek}\p{Script=Cyrillic}\p{N}]/u;
const within = (text, at) => at > 0 && at < text.length && LETTER.test(text[at - 1]) && LETTER.test(text[at]);

// The text with the names of nodes marked; longest names first, so that a name within another is not torn out.
function marked(text, nodes) {
  const line = make("p"), low = lower(text);
  const names = nodes.map((n, i) => [lower(n.name), i]).filter(([n]) => n.length > 1).sort((a, b) => b[0].length - a[0].length);
  let at = 0, plain = 0;
  while (at < text.length) {
    const hit = names.find(([name]) => low.startsWith(name, at) && !within(low, at) && !within(low, at + name.length));
    if (!hit) { at += 1; continue; }
    line.append(text.slice(plain, at), make("mark", { "data-node": hit[1], tabindex: "0" }, text.slice(at, at + hit[0].length)));
    plain = at += hit[0].length;
  }
  line.append(text.slice(plain));
  return line;
}

function legend(record) {
  const line = make("p", { class: "legend small" });
  for (const type of distinct(nodesOf(record).map((n) => n.type)).filter(Boolean)) {
    const spot = draw("svg", { viewBox: "0 0 10 10", "aria-hidden": "true" }, draw("circle", { cx: 5, cy: 5, r: 5, class: colour(type) }));
    line.append(make("span", {}, spot, " " + type));
  }
  return line;
}

function light(card, node, on) {
  for (const part of card.querySelectorAll("[data-node], [data-ends]"))
    if ((part.dataset.node || part.dataset.ends).split(" ").includes(node)) part.classList.toggle("on", on);
}

function body(record, card) {
  const inner = make("div");
  for (const [label, text] of [["Question", record.question], ["Answer", record.answer]])
    inner.append(make("p", { class: "small label" }, label), marked(text, nodesOf(record)));
  if (record.nodes && record.edges) inner.append(graph(record), legend(record));
  for (const [judge, verdict] of Object.entries(record.verdicts || {})) {
    const list = make("dl", { "aria-label": "verdict of " + judge });
    for (const [field, said] of Object.entries(verdict || {})) list.append(make("dt", {}, judge + ": " + field), make("dd", {}, said === null ? "–" : String(said)));
    inner.append(list);
  }
  if (record.more) {
    const list = make("dl", { "aria-label": "more of this record" });
    for (const [field, value] of Object.entries(record.more)) list.append(make("dt", {}, field.replaceAll("_", " ")), make("dd", {}, told(value)));
    inner.append(list);
  }
  const link = make("a", { href: "#" + encodeURIComponent(record.id) }, "link to this record");
  inner.append(make("p", { class: "small" }, link, " · ", make("code", {}, "kgqa explain " + data.run + " " + record.id.replace(/\.\d+$/, ""))));
  for (const [event, on] of [["mouseover", true], ["mouseout", false], ["focusin", true], ["focusout", false]])
    inner.addEventListener(event, (e) => { const part = e.target.closest("[data-node]"); if (part) light(inner, part.dataset.node, on); });
  return inner;
}

// A value of any form in words; a list within a list (a triple) is one thing.
function told(value, inner = false) {
  if (Array.isArray(value)) return value.map((one) => told(one, true)).join(inner ? " – " : "; ");
  if (value === null || typeof value !== "object") return String(value);
  return Object.entries(value).map(([key, one]) => key + ": " + told(one, true)).join(", ");
}

function cardOf(record) {
  const card = make("article", { class: "card" + (record.accepted ? "" : " no"), id: "r-" + record.id });
  const title = record.group + (record.reason ? " · " + record.reason : "");
  const question = make("span", {}, record.question);
  const button = make("button", { type: "button", "aria-expanded": "false" }, make("span", { class: "small" }, title), make("br"), question);
  button.addEventListener("click", () => {
    const open = card.lastElementChild.tagName === "DIV";
    if (open) card.lastElementChild.remove(); else card.append(body(record, card));
    question.hidden = !open; // the opened record shows it with its names marked
    button.setAttribute("aria-expanded", String(!open));
    if (!open) history.replaceState(null, "", "#" + encodeURIComponent(record.id));
  });
  button.addEventListener("keydown", (e) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[e.key];
    if (!step) return;
    const all = [...card.parentElement.querySelectorAll(".card > button")];
    const next = all[all.indexOf(button) + step];
    if (next) { next.focus(); e.preventDefault(); }
  });
  card.append(button);
  return card;
}

function show() {
  for (const side of ["accepted", "rejected"]) {
    const found = data.records.filter((r) => r.accepted === (side === "accepted") && fits(r));
    const list = document.getElementById(side + "-list");
    list.replaceChildren(...found.slice(0, shown[side]).map(cardOf));
    document.getElementById(side + "-count").textContent = found.length.toLocaleString("en");
    document.getElementById(side + "-more").hidden = found.length <= shown[side];
  }
}
// From the body the arrow keys scroll, until the records are in sight.
const seen = (part) => part.getBoundingClientRect().top < innerHeight;
function follow() {
  const id = decodeURIComponent(location.hash.slice(1)), record = data.records.find((r) => r.id === id);
  if (!record) return;
  for (const field of form.querySelectorAll("input, select")) field.value = "";
  form.elements.text.value = id;
  show();
  const button = document.querySelector('[id="r-' + CSS.escape(id) + '"] > button') || document.getElementById("r-" + id)?.firstElementChild;
  if (button) { if (button.getAttribute("aria-expanded") === "false") button.click(); button.focus(); button.scrollIntoView({ block: "center" }); }
}
form.addEventListener("input", () => { shown.accepted = shown.rejected = PAGE; show(); });
form.addEventListener("submit", (e) => e.preventDefault());
form.addEventListener("reset", () => setTimeout(show));
for (const side of ["accepted", "rejected"])
  document.getElementById(side + "-more").addEventListener("click", () => { shown[side] += PAGE; show(); });
document.addEventListener("keydown", (e) => {
  if (e.key === "/" && !/^(INPUT|SELECT)$/.test(document.activeElement.tagName)) { form.elements.text.focus(); e.preventDefault(); }
  if (e.key === "Escape" && document.activeElement.tagName === "INPUT") document.activeElement.blur();
  const outside = document.activeElement === document.body || document.activeElement === form.elements.text;
  const first = document.querySelector(".card > button");
  if (e.key === "ArrowDown" && outside && first && (document.activeElement !== document.body || seen(first))) { first.focus(); e.preventDefault(); }
});
for (const link of document.querySelectorAll(".pairs a")) {
  const id = decodeURIComponent(link.hash.slice(1)), record = data.records.find((r) => r.id === id);
  if (record?.nodes && record.edges) link.after(graph(record));
}
addEventListener("hashchange", follow);
show();
follow();
