"""A trace as one HTML page, which needs no network: `page`."""

from __future__ import annotations

import html
import json
from collections.abc import Sequence
from typing import Any


def page(title: str, events: Sequence[dict[str, Any]]) -> str:
    """The text of a page that shows the events of a trace: ranges in lanes, memory as areas; to be zoomed and moved.

    events   in the trace format of `fgrad.profiler`: X, C and M
    """
    data = json.dumps(list(events), separators=(",", ":")).replace("<", "\\u003c")  # no end of the script inside
    return _PAGE.replace("TITLE", html.escape(title)).replace("EVENTS", data)


_PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>TITLE</title>
<style>
body { margin: 0; font: 13px system-ui, sans-serif; color: #222; background: #fff; }
header { padding: 8px 12px; border-bottom: 1px solid #ccc; }
header b { margin-right: 1em; }
canvas { display: block; width: 100vw; cursor: grab; }
#tip { position: fixed; display: none; max-width: 40em; padding: 6px 8px; background: #fffbe6; border: 1px solid #aaa;
       white-space: pre-line; pointer-events: none; }
table { margin: 12px; border-collapse: collapse; }
td, th { padding: 2px 12px 2px 0; text-align: right; }
td:first-child, th:first-child { text-align: left; }
</style>
</head>
<body>
<header><b>TITLE</b> <span id="span"></span>. Wheel: zoom. Drag: move. Double click: everything.</header>
<canvas id="view"></canvas>
<div id="tip"></div>
<table id="sums">
<thead><tr><th>what</th><th>runs</th><th>total ms</th><th>share</th></tr></thead>
<tbody></tbody>
</table>
<script id="events" type="application/json">EVENTS</script>
<script>
"use strict";
const events = JSON.parse(document.getElementById("events").textContent);
const ROW = 20, HEAD = 24, AREA = 48, LEFT = 150;
const names = new Map(), lanes = new Map();
for (const e of events) if (e.ph === "M") names.set(e.name + e.pid + "/" + e.tid, e.args.name);
function lane(e, kind) {
  const key = e.pid + "/" + kind;
  if (!lanes.has(key)) {
    const device = names.get("process_name" + e.pid + "/0") || "process " + e.pid;
    lanes.set(key, {pid: e.pid, text: device + " " + kind, ranges: [], levels: [], rows: 1});
  }
  return lanes.get(key);
}
let first = Infinity, last = -Infinity;
for (const e of events) {
  if (e.ph === "X") {
    const own = names.get("thread_name" + e.pid + "/" + e.tid) || e.cat + " " + e.tid;
    lane(e, own).ranges.push(e);
    first = Math.min(first, e.ts); last = Math.max(last, e.ts + e.dur);
  } else if (e.ph === "C") {
    lane(e, e.name).levels.push(e);
    first = Math.min(first, e.ts); last = Math.max(last, e.ts);
  }
}
if (!(last > first)) { first = first === Infinity ? 0 : first; last = first + 1; }
const order = [...lanes.values()].sort((a, b) => a.pid - b.pid || (a.text < b.text ? -1 : 1));
let top = HEAD;
for (const l of order) {
  l.ranges.sort((a, b) => a.ts - b.ts || b.dur - a.dur);
  const ends = [];  // of the rows: a range inside another stands below it
  for (const r of l.ranges) {
    let row = ends.findIndex(end => end <= r.ts);
    if (row < 0) row = ends.length;
    ends[row] = r.ts + r.dur;
    r.row = row;
  }
  l.top = top;
  l.rows = Math.max(1, ends.length);
  l.most = Math.max(1, ...l.levels.map(e => Object.values(e.args).reduce((a, b) => a + b, 0)));
  l.height = l.levels.length ? AREA : l.rows * ROW;
  top += l.height + 6;
}
const canvas = document.getElementById("view"), draw = canvas.getContext("2d"), tip = document.getElementById("tip");
let from = first, to = last;
function time(us) {
  const [by, unit] = us >= 1e6 ? [1e6, " s"] : us >= 1e3 ? [1e3, " ms"] : [1, " us"];
  return (us / by).toFixed(3) + unit;
}
document.getElementById("span").textContent = time(last - first);
function colour(text) {
  let h = 0;
  for (const c of text) h = (h * 31 + c.charCodeAt(0)) % 360;
  return "hsl(" + h + ",55%,72%)";
}
const width = () => canvas.clientWidth - LEFT;
const x = t => LEFT + (t - from) / (to - from) * width();
function paint() {
  const dots = window.devicePixelRatio || 1;
  canvas.style.height = top + "px";
  canvas.width = canvas.clientWidth * dots; canvas.height = top * dots;
  draw.setTransform(dots, 0, 0, dots, 0, 0);
  draw.clearRect(0, 0, canvas.clientWidth, top);
  draw.font = "11px system-ui, sans-serif"; draw.textBaseline = "middle";
  const step = Math.pow(10, Math.ceil(Math.log10((to - from) / 8)));
  draw.fillStyle = "#666"; draw.strokeStyle = "#eee";
  for (let t = Math.ceil(from / step) * step; t < to; t += step) {
    draw.beginPath(); draw.moveTo(x(t), HEAD - 6); draw.lineTo(x(t), top); draw.stroke();
    draw.fillText(time(t - first), x(t) + 2, HEAD / 2);
  }
  for (const l of order) {
    draw.save(); draw.beginPath(); draw.rect(LEFT, l.top, width(), l.height); draw.clip();
    let filled = -1, row = -1;
    for (const r of l.ranges) {
      const a = x(r.ts), b = x(r.ts + r.dur);
      if (b < LEFT || a > LEFT + width() || (r.row === row && b < filled + 0.3)) continue;
      filled = b; row = r.row;
      draw.fillStyle = colour(r.name);
      draw.fillRect(a, l.top + r.row * ROW, Math.max(b - a, 0.7), ROW - 2);
      if (b - a > 30) {
        draw.fillStyle = "#222";
        const left = Math.max(a, LEFT);
        draw.fillText(r.name, left + 3, l.top + r.row * ROW + ROW / 2 - 1, Math.max(b - left - 6, 1));
      }
    }
    l.levels.forEach((e, i) => {
      const a = x(e.ts), b = i + 1 < l.levels.length ? x(l.levels[i + 1].ts) : x(last);
      let base = l.top + l.height;
      Object.entries(e.args).forEach(([, n], k) => {
        const h = n / l.most * l.height;
        draw.fillStyle = ["#7aa6d8", "#d5e3f3"][k % 2];
        draw.fillRect(a, base - h, Math.max(b - a, 0.7), h);
        base -= h;
      });
    });
    draw.restore();
    draw.fillStyle = "#222";
    draw.fillText(l.text, 6, l.top + Math.min(l.height, ROW) / 2, LEFT - 12);
  }
}
function found(px, py) {
  const t = from + (px - LEFT) / width() * (to - from);
  for (const l of order) {
    if (py < l.top || py >= l.top + l.height) continue;
    if (l.levels.length) return l.levels.filter(e => e.ts <= t).pop();
    const row = Math.floor((py - l.top) / ROW), slack = (to - from) / width();
    return l.ranges.find(r => r.row === row && r.ts - slack <= t && t <= r.ts + r.dur + slack);
  }
}
let held = null;
canvas.addEventListener("mousedown", e => { held = {x: e.clientX, from, to}; });
window.addEventListener("mouseup", () => { held = null; });
window.addEventListener("mousemove", e => {
  if (held) {
    const by = (e.clientX - held.x) / width() * (held.to - held.from);
    from = held.from - by; to = held.to - by; paint();
  }
  const box = canvas.getBoundingClientRect();
  const hit = e.target === canvas && found(e.clientX - box.left, e.clientY - box.top);
  tip.style.display = hit ? "block" : "none";
  if (hit) {
    const rest = Object.entries(hit.args || {}).map(([k, v]) => k + ": " + v.toLocaleString());
    const when = hit.ph === "X" ? "from " + time(hit.ts - first) + ", " + time(hit.dur) : "at " + time(hit.ts - first);
    tip.textContent = [hit.name, when, ...rest].join("\\n");
    tip.style.left = Math.min(e.clientX + 12, window.innerWidth - 320) + "px"; tip.style.top = e.clientY + 12 + "px";
  }
});
canvas.addEventListener("wheel", e => {
  e.preventDefault();
  const box = canvas.getBoundingClientRect(), at = from + (e.clientX - box.left - LEFT) / width() * (to - from);
  const by = Math.exp(e.deltaY * 0.0015);
  from = at - (at - from) * by; to = at + (to - at) * by; paint();
}, {passive: false});
canvas.addEventListener("dblclick", () => { from = first; to = last; paint(); });
window.addEventListener("resize", paint);
const sums = new Map();
for (const l of order) for (const r of l.ranges) {
  const s = sums.get(l.text + ": " + r.name) || {runs: 0, us: 0};
  s.runs += (r.args && r.args.runs) || 1; s.us += r.dur; sums.set(l.text + ": " + r.name, s);
}
const body = document.querySelector("#sums tbody");
for (const [name, s] of [...sums].sort((a, b) => b[1].us - a[1].us).slice(0, 50)) {
  const tr = body.insertRow();
  for (const text of [name, s.runs, (s.us / 1e3).toFixed(3), (100 * s.us / (last - first)).toFixed(1) + "%"]) {
    tr.insertCell().textContent = text;
  }
}
paint();
</script>
</body>
</html>
"""
