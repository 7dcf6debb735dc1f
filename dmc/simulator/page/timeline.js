"use strict";
// One view of time, [from, to) in nanoseconds, drawn three times: axis, lanes, memory.
const data = JSON.parse(document.getElementById("data").textContent);
const S = data.spans, STEP = Math.max(data.step, 1);
const GUTTER = 168, ROW = 24, HEAD = 30, AXIS = 26, MEMORY = 190;
const $ = (id) => document.getElementById(id);
const colours = new Map();  // by the name of a CSS variable; read again when the colour scheme changes
function css(name) {
  if (!colours.has(name)) colours.set(name, getComputedStyle(document.documentElement).getPropertyValue("--" + name).trim());
  return colours.get(name);
}
// Dark text on light colours: the weights are those of ITU-R BT.709.
function inkOn(colour) {
  const [r, g, b] = [1, 3, 5].map((n) => parseInt(colour.slice(n, n + 2), 16) / 255);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.5 ? "#14171a" : "#ffffff";
}
const view = { from: 0, to: STEP };
const state = { hover: -1, kept: -1, only: null, search: "", critical: false, cursor: null, memoryRank: 0 };

// Rows from top to bottom: a heading for each rank, then its lanes, each with its spans in the order of time.
const rows = [];
let height = 0;
const rowOf = new Map();
data.ranks.forEach((rank, r) => {
  rows.push({ heading: true, r, y: height, h: HEAD });
  height += HEAD;
  rank.lanes.forEach((lane, l) => {
    const row = { r, l, y: height, h: ROW, spans: [] };
    rows.push(row);
    rowOf.set(r * 4096 + l, row);
    height += ROW;
  });
});
height += 8;
$("lanes").style.height = height + "px";  // before the first drawing, so that a scroll bar is there if there will be one
for (let i = 0; i < S.start.length; i++) rowOf.get(S.rank[i] * 4096 + S.lane[i]).spans.push(i);
const end = (i) => S.start[i] + S.length[i];
const kindOf = (i) => data.kinds[S.kind[i]];
const titleOf = (i) => data.strings[S.title[i]];

function time(ns) {
  const size = Math.abs(ns);
  if (size >= 1e9) return (ns / 1e9).toFixed(3) + " s";
  if (size >= 1e6) return (ns / 1e6).toFixed(3) + " ms";
  if (size >= 1e3) return (ns / 1e3).toFixed(2) + " µs";
  return ns.toFixed(size < 10 ? 1 : 0) + " ns";
}
function scaled(value, units, base) {
  let at = 0;
  while (value >= base && at < units.length - 1) { value /= base; at++; }
  return (at === 0 ? value : value.toPrecision(value < 100 ? 3 : 4)) + " " + units[at];
}
const bytes = (n) => scaled(n, ["B", "kB", "MB", "GB", "TB"], 1000);
const flops = (n) => scaled(n, ["FLOP", "kFLOP", "MFLOP", "GFLOP", "TFLOP", "PFLOP"], 1000);

// A scroll bar beside the lanes takes room from all three.
const width = () => $("scroll").clientWidth;
const x = (ns) => GUTTER + (ns - view.from) / (view.to - view.from) * (width() - GUTTER - 12);
const at = (px) => view.from + (px - GUTTER) / (width() - GUTTER - 12) * (view.to - view.from);

function prepare(canvas, tall) {
  const ratio = window.devicePixelRatio || 1, wide = width();
  canvas.style.width = wide + "px";
  canvas.style.height = tall + "px";
  if (canvas.width !== Math.round(wide * ratio) || canvas.height !== Math.round(tall * ratio)) {
    canvas.width = Math.round(wide * ratio);
    canvas.height = Math.round(tall * ratio);
  }
  const c = canvas.getContext("2d");
  c.setTransform(ratio, 0, 0, ratio, 0, 0);
  c.clearRect(0, 0, wide, tall);
  c.font = "12px system-ui, sans-serif";
  c.textBaseline = "middle";
  return c;
}

function ticks() {
  const wanted = (view.to - view.from) / Math.max((width() - GUTTER) / 110, 1);
  const power = 10 ** Math.floor(Math.log10(wanted));
  const gap = [1, 2, 5, 10].map((m) => m * power).find((g) => g >= wanted);
  const found = [];
  for (let t = Math.ceil(view.from / gap) * gap; t <= view.to; t += gap) found.push(t);
  return { found, gap };
}
function tickLabel(t, gap) {
  const [unit, name] = STEP >= 1e9 ? [1e9, "s"] : STEP >= 1e6 ? [1e6, "ms"] : STEP >= 1e3 ? [1e3, "µs"] : [1, "ns"];
  return (t / unit).toFixed(Math.max(0, -Math.floor(Math.log10(gap / unit) + 1e-9))) + " " + name;
}
function grid(c, tall) {
  c.fillStyle = css("faint");
  for (const t of ticks().found) c.fillRect(Math.round(x(t)), 0, 1, tall);
}
function cursor(c, tall) {
  if (state.cursor === null || state.cursor < GUTTER) return;
  c.fillStyle = css("soft");
  c.fillRect(Math.round(state.cursor), 0, 1, tall);
}

function drawAxis() {
  const c = prepare($("axis"), AXIS), { found, gap } = ticks();
  c.fillStyle = css("soft");
  found.forEach((t) => c.fillText(tickLabel(t, gap), x(t) + 4, AXIS / 2));
  if (state.cursor === null || state.cursor < GUTTER) return;
  const label = time(at(state.cursor)), wide = c.measureText(label).width + 12;
  const left = Math.min(state.cursor, width() - wide);
  c.fillStyle = css("ink");
  c.fillRect(left, 3, wide, AXIS - 6);
  c.fillStyle = css("card");
  c.fillText(label, left + 6, AXIS / 2);
}

function drawLanes() {
  const c = prepare($("lanes"), height), kinds = data.kinds.map(css);
  grid(c, height);
  c.save();
  c.beginPath();
  c.rect(GUTTER, 0, width() - GUTTER, height);
  c.clip();
  for (const row of rows) if (!row.heading) drawRow(c, row, kinds);
  for (const i of [state.kept, state.hover]) if (i >= 0) drawCause(c, i);
  cursor(c, height);
  c.restore();
  for (const row of rows) row.heading ? drawHeading(c, row) : drawName(c, row);
}
// The first span of a row that ends after a time: spans of a lane are in order and apart.
function firstAfter(spans, t) {
  let low = 0, high = spans.length;
  while (low < high) {
    const mid = (low + high) >> 1;
    if (end(spans[mid]) > t) high = mid; else low = mid + 1;
  }
  return low;
}
function isDim(i) {
  if (state.critical && !S.critical[i]) return true;
  if (state.only !== null && S.kind[i] !== state.only) return true;
  return state.search !== "" && !titleOf(i).toLowerCase().includes(state.search);
}
function drawRow(c, row, kinds) {
  let painted = -1;
  for (let k = firstAfter(row.spans, view.from); k < row.spans.length; k++) {
    const i = row.spans[k];
    if (S.start[i] - S.waited[i] > view.to) break;
    const left = x(S.start[i]), right = x(end(i)), dim = isDim(i);
    if (S.waited[i] > 0) hatch(c, x(S.start[i] - S.waited[i]), left, row.y + 3, kinds[S.kind[i]]);
    // What is thinner than a pixel is painted once for that pixel.
    if (dim && right < painted + 1) continue;
    if (!dim && right < painted + 0.5) continue;
    painted = right;
    const wide = Math.max(right - left - (right - left > 3 ? 1 : 0), 0.8);
    c.globalAlpha = dim ? 0.16 : 1;
    c.fillStyle = kinds[S.kind[i]];
    c.fillRect(left, row.y + 3, wide, ROW - 6);
    if (S.critical[i] && !dim) {
      c.fillStyle = css("accent");
      c.fillRect(left, row.y + ROW - 4, wide, 2);
    }
    if (wide > 34) label(c, titleOf(i), left, wide, row.y, inkOn(kinds[S.kind[i]]));
    c.globalAlpha = 1;
    if (i === state.hover || i === state.kept) outline(c, left, row.y + 3, wide);
  }
}
function outline(c, left, top, wide) {
  c.strokeStyle = css("ink");
  c.lineWidth = 1.5;
  c.strokeRect(left - 0.5, top - 0.5, wide + 1, ROW - 5);
}
function label(c, text, left, wide, y, ink) {
  const from = Math.max(left, GUTTER), room = left + wide - from - 8;
  if (room < 26) return;
  c.fillStyle = ink;
  const fits = Math.floor(room / 6.4);
  c.fillText(text.length > fits ? text.slice(0, Math.max(fits - 1, 1)) + "…" : text, from + 4, y + ROW / 2);
}
function hatch(c, left, right, top, colour) {
  left = Math.max(left, GUTTER);
  right = Math.min(right, width());
  if (right - left < 1) return;
  c.save();
  c.beginPath();
  c.rect(left, top + 3, right - left, ROW - 12);
  c.clip();
  c.globalAlpha = 0.45;
  c.strokeStyle = colour;
  c.lineWidth = 1.5;
  c.beginPath();
  for (let at = Math.floor(left / 6) * 6 - ROW; at < right; at += 6) { c.moveTo(at, top + ROW); c.lineTo(at + ROW, top); }
  c.stroke();
  c.restore();
}
function drawCause(c, i) {
  const cause = S.cause[i];
  if (cause < 0) return;
  const one = rowOf.get(S.rank[cause] * 4096 + S.lane[cause]), two = rowOf.get(S.rank[i] * 4096 + S.lane[i]);
  const px = x(S.start[i]), from = one.y + ROW / 2, to = two.y + ROW / 2;
  if (one === two) return;
  c.strokeStyle = css("ink");
  c.lineWidth = 1.5;
  c.beginPath();
  c.moveTo(px - 8, from);
  c.bezierCurveTo(px + 10, from, px - 18, to, px - 2, to);
  c.stroke();
  c.fillStyle = css("ink");
  c.beginPath();
  c.moveTo(px, to);
  c.lineTo(px - 6, to - 3.5);
  c.lineTo(px - 6, to + 3.5);
  c.fill();
}
function drawHeading(c, row) {
  const rank = data.ranks[row.r], w = rank.waits;
  c.fillStyle = css("stripe");
  c.fillRect(0, row.y, width(), row.h);
  c.fillStyle = css("ink");
  c.font = "600 12.5px system-ui, sans-serif";
  c.fillText("rank " + rank.rank, 14, row.y + row.h / 2);
  c.font = "12px system-ui, sans-serif";
  c.fillStyle = css("soft");
  const share = (ns) => (100 * ns / STEP).toFixed(1) + " %";
  const parts = [["computes", w.busy], ["waits for communication", w.communication], ["for copies", w.copies],
    ["for other ranks", w.others]].filter(([name, ns], n) => n < 2 || ns > 0.0005 * STEP);
  c.fillText(parts.map(([name, ns]) => name + " " + share(ns)).join("   ·   "), GUTTER + 4, row.y + row.h / 2);
}
function drawName(c, row) {
  const lane = data.ranks[row.r].lanes[row.l];
  c.fillStyle = css("card");
  c.fillRect(0, row.y, GUTTER, row.h);
  c.fillStyle = css("ink");
  const name = lane.name.length > 15 ? lane.name.slice(0, 14) + "…" : lane.name;
  c.fillText(name, 24, row.y + ROW / 2);
  c.fillStyle = css("soft");
  c.textAlign = "right";
  c.fillText((100 * lane.busy / STEP).toFixed(0) + " %", GUTTER - 12, row.y + ROW / 2);
  c.textAlign = "left";
}
