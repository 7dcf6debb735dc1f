// Pointer, wheel, keys, legend; what is drawn is drawn once for each frame.
let waiting = false;
function redraw() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => { waiting = false; drawAxis(); drawLanes(); drawMemory(); });
}
function show(from, to) {
  const span = Math.min(Math.max(to - from, Math.min(50, STEP)), STEP * 1.02);
  const start = Math.min(Math.max(from, -0.01 * STEP), STEP * 1.01 - span);
  view.from = Math.max(start, -0.01 * STEP);
  view.to = view.from + span;
  redraw();
}
function zoom(factor, px = GUTTER + (width() - GUTTER) / 2) {
  const t = at(Math.max(px, GUTTER));
  show(t - (t - view.from) * factor, t + (view.to - t) * factor);
}
const pan = (share) => show(view.from + share * (view.to - view.from), view.to + share * (view.to - view.from));

function spanAt(px, py) {
  const row = rows.find((row) => !row.heading && py >= row.y && py < row.y + row.h);
  if (!row || px < GUTTER) return -1;
  const t = at(px), slack = at(px + 2) - t, k = firstAfter(row.spans, t - slack);
  if (k === row.spans.length) return -1;
  return S.start[row.spans[k]] - S.waited[row.spans[k]] <= t + slack ? row.spans[k] : -1;
}
function describe(i) {
  const rank = data.ranks[S.rank[i]], text = (k) => data.strings[k];
  const lines = [["what", `${kindOf(i)}: ${text(S.name[i])}`], ["time", `${time(S.length[i])}, from ${time(S.start[i])}`],
    ["bytes", bytes(S.bytes[i])]];
  if (S.flops[i]) lines.push(["work", `${flops(S.flops[i])} at ${flops(S.flops[i] / S.length[i] * 1e9)}/s`]);
  if (S.waited[i] > 0) lines.push(["waited", `${time(S.waited[i])} for other members`]);
  lines.push(["began", text(S.after[i])]);
  if (text(S.asked[i])) lines.push(["asked for by", text(S.asked[i])]);
  lines.push(["where", `rank ${rank.rank}, lane ${rank.lanes[S.lane[i]].name}, command ${S.command[i]}`]);
  if (S.critical[i]) lines.push(["critical", "the step waits for it"]);
  return card(titleOf(i), lines);
}
function card(title, lines) {
  const box = document.createDocumentFragment(), head = document.createElement("strong");
  const table = document.createElement("table");
  head.textContent = title;
  for (const [name, value] of lines) {
    const line = table.insertRow(), cell = document.createElement("th");
    cell.textContent = name;
    line.append(cell);
    line.insertCell().textContent = value;
  }
  box.append(head, table);
  return box;
}
function tip(event, content) {
  const box = $("tip");
  box.hidden = content === null;
  if (content === null) return;
  box.replaceChildren(content);
  const wide = box.offsetWidth, tall = box.offsetHeight;
  box.style.left = Math.max(8, Math.min(event.clientX + 16, innerWidth - wide - 8)) + "px";
  box.style.top = (event.clientY + 18 + tall > innerHeight ? event.clientY - tall - 12 : event.clientY + 18) + "px";
}

let drag = null;
for (const id of ["axis", "lanes", "memory"]) {
  const canvas = $(id);
  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    drag = { x: event.clientX, y: event.clientY, from: view.from, to: view.to, top: $("scroll").scrollTop, moved: false };
  });
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect(), px = event.clientX - box.left, py = event.clientY - box.top;
    state.cursor = px;
    if (drag) {
      const shift = (drag.x - event.clientX) / (width() - GUTTER) * (drag.to - drag.from);
      drag.moved = drag.moved || Math.hypot(event.clientX - drag.x, event.clientY - drag.y) > 3;
      if (id === "lanes") $("scroll").scrollTop = drag.top + drag.y - event.clientY;
      if (drag.moved) { tip(event, null); show(drag.from + shift, drag.to + shift); }
      return;
    }
    state.hover = id === "lanes" ? spanAt(px, py) : -1;
    if (id === "memory" && px > GUTTER) tip(event, card("live at " + time(at(px)), memoryAt(at(px)).map(([k, n]) => [k, bytes(n)])));
    else tip(event, state.hover < 0 ? null : describe(state.hover));
    redraw();
  });
  canvas.addEventListener("pointerup", () => {
    if (drag && !drag.moved && id === "lanes") keep(state.hover);
    drag = null;
  });
  canvas.addEventListener("pointerleave", (event) => {
    state.cursor = null;
    state.hover = -1;
    tip(event, null);
    redraw();
  });
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) return pan((event.deltaX || event.deltaY) / 900);
    zoom(Math.exp(event.deltaY / 400), event.clientX - canvas.getBoundingClientRect().left);
  }, { passive: false });
}
$("lanes").addEventListener("dblclick", () => {
  if (state.hover < 0) return;
  const margin = S.length[state.hover] * 0.6 + 20;
  show(S.start[state.hover] - margin, end(state.hover) + margin);
});
function keep(i) {
  state.kept = i;
  $("details").hidden = i < 0;
  if (i >= 0) $("details").replaceChildren(describe(i));
  redraw();
}

data.kinds.forEach((kind, k) => {
  const button = document.createElement("button"), dot = document.createElement("i"), total = document.createElement("b");
  button.type = "button";
  button.setAttribute("aria-pressed", "false");
  dot.style.background = `var(--${kind})`;
  total.textContent = time(data.totals[k]);
  button.append(dot, kind, total);
  button.addEventListener("click", () => {
    state.only = state.only === k ? null : k;
    for (const [n, other] of [...$("legend").children].entries()) other.setAttribute("aria-pressed", String(n === state.only));
    redraw();
  });
  $("legend").append(button);
});
function drawCategories() {
  const memory = data.ranks[state.memoryRank].memory;
  $("categories").replaceChildren(...memory.categories.map((category, k) => {
    const key = document.createElement("span"), dot = document.createElement("i");
    key.className = "key";
    dot.style.background = `var(--${category})`;
    key.append(dot, memory.names[k]);
    return key;
  }));
}
data.ranks.forEach((rank, r) => $("rank").append(new Option("rank " + rank.rank, String(r))));
$("rank").addEventListener("change", () => { state.memoryRank = Number($("rank").value); drawCategories(); redraw(); });
$("search").addEventListener("input", () => { state.search = $("search").value.toLowerCase(); redraw(); });
$("critical").addEventListener("change", () => { state.critical = $("critical").checked; redraw(); });
$("closer").addEventListener("click", () => zoom(0.6));
$("wider").addEventListener("click", () => zoom(1 / 0.6));
$("whole").addEventListener("click", () => show(0, STEP));
addEventListener("keydown", (event) => {
  if (["INPUT", "SELECT"].includes(event.target.tagName) || event.ctrlKey || event.metaKey || event.altKey) return;
  const keys = { a: () => pan(-0.2), d: () => pan(0.2), w: () => zoom(0.7, state.cursor ?? undefined),
    s: () => zoom(1 / 0.7, state.cursor ?? undefined), 0: () => show(0, STEP), Escape: () => keep(-1) };
  keys[event.key.length === 1 ? event.key.toLowerCase() : event.key]?.();
});
addEventListener("resize", redraw);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { colours.clear(); redraw(); });
drawCategories();
redraw();
