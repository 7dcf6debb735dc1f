// Memory over the time of the step: what is live, by category, one on the other, below the size of the arena.
function drawMemory() {
  const c = prepare($("memory"), MEMORY), m = data.ranks[state.memoryRank].memory;
  grid(c, MEMORY);
  if (!m.times.length || !m.categories.length) return note(c, "This job says nothing about its buffers.");
  const top = Math.max(m.arena, m.peak, 1) * 1.06, y = (n) => MEMORY - 14 - n / top * (MEMORY - 30);
  c.save();
  c.beginPath();
  c.rect(GUTTER, 0, width() - GUTTER, MEMORY);
  c.clip();
  const points = visible(m);
  for (let k = m.categories.length - 1; k >= 0; k--) area(c, points, k, y, css(m.categories[k]) || css("other"));
  cursor(c, MEMORY);
  c.restore();
  level(c, y, m.arena, "arena", "ink");
  if (m.arena - m.peak > top * 0.09) level(c, y, m.peak, "peak", "soft");
  c.fillStyle = css("soft");
  c.fillText("0", 24, y(0));
}
// Sums from below, at the left edge of each stretch of time; of stretches thinner than a pixel, the fullest.
function visible(m) {
  const points = [];
  let k = 0;
  while (k + 1 < m.times.length && m.times[k + 1] <= view.from) k++;
  for (; k < m.times.length && m.times[k] <= view.to; k++) {
    let total = 0;
    const sums = m.live[k].map((n) => (total += n)), px = x(Math.max(m.times[k], view.from));
    const last = points[points.length - 1];
    if (!last || px - last.px >= 0.5) points.push({ px, sums });
    else if (total > last.sums[last.sums.length - 1]) last.sums = sums;
  }
  points.push({ px: x(Math.min(view.to, STEP)), sums: points.length ? points[points.length - 1].sums : [] });
  return points;
}
function area(c, points, k, y, colour) {
  c.fillStyle = colour;
  c.beginPath();
  c.moveTo(points[0].px, y(0));
  points.forEach((point, n) => {
    if (n) c.lineTo(point.px, y(points[n - 1].sums[k]));
    c.lineTo(point.px, y(point.sums[k]));
  });
  c.lineTo(points[points.length - 1].px, y(0));
  c.fill();
}
function level(c, y, size, name, colour) {
  c.strokeStyle = css(colour);
  c.lineWidth = 1;
  c.setLineDash([5, 4]);
  c.beginPath();
  c.moveTo(GUTTER, Math.round(y(size)) + 0.5);
  c.lineTo(width() - 12, Math.round(y(size)) + 0.5);
  c.stroke();
  c.setLineDash([]);
  c.fillStyle = css(colour);
  c.fillText(name + " " + bytes(size), 24, y(size));
}
function note(c, text) {
  c.fillStyle = css("soft");
  c.fillText(text, GUTTER + 4, MEMORY / 2);
}
function memoryAt(t) {
  const m = data.ranks[state.memoryRank].memory;
  let low = 0, high = m.times.length;
  while (low < high) {
    const mid = (low + high) >> 1;
    if (m.times[mid] <= t) low = mid + 1; else high = mid;
  }
  return low ? m.names.map((name, k) => [name, m.live[low - 1][k]]).filter(([, n]) => n) : [];
}
