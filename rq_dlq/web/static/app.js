// Charts, the theme switch, and keyboard shortcuts. Pages are readable without this script.
"use strict";

const LINES = {
  rates: [["sent", 1, "--blue"], ["acked", 2, "--green"], ["failed", 3, "--amber"], ["died", 4, "--red"]],
  counts: [["ready", 5, "--blue"], ["leased", 6, "--violet"], ["dead", 7, "--red"]],
};
const WINDOW = 900; // seconds
const probe = document.body.appendChild(document.createElement("i"));
const color = (name) => {
  probe.style.color = `var(${name})`;
  return getComputedStyle(probe).color;
};
const clock = (_, times) => times.map((at) => new Date(at * 1000).toISOString().slice(11, 16));
const charts = [];

function draw(box) {
  const lines = LINES[box.dataset.chart];
  const points = JSON.parse(box.dataset.points);
  const data = points.length ? [points[0], ...lines.map(([, n]) => points[n])] : [[], ...lines.map(() => [])];
  const grid = { stroke: color("--line"), width: 1 };
  const axis = { stroke: color("--dim"), grid, ticks: { show: false }, font: "12px system-ui" };
  const chart = new uPlot({
    width: box.clientWidth,
    height: 200,
    legend: { live: true },
    cursor: { y: false, points: { size: 6 } },
    scales: {
      x: { range: (_, low, high) => [(high ?? Date.now() / 1000) - WINDOW, high ?? Date.now() / 1000] },
      y: { range: (_, low, high) => [0, Math.max(1, (high ?? 0) * 1.1)] },
    },
    axes: [{ ...axis, space: 90, values: clock }, { ...axis, size: 48 }],
    series: [{}, ...lines.map(([label, , name]) => ({ label, stroke: color(name), width: 2, points: { show: false } }))],
  }, data, box);
  charts.push({ box, chart, data, lines });
}

function add(point) {
  for (const { chart, data, lines } of charts) {
    const times = data[0];
    if (times.length && point[0] <= times.at(-1)) continue;
    times.push(point[0]);
    lines.forEach(([, n], k) => data[k + 1].push(point[n]));
    while (times[0] < point[0] - WINDOW) data.forEach((column) => column.shift());
    chart.setData(data);
  }
}

function redraw() {
  for (const { chart, data, box, lines } of charts.splice(0)) {
    const points = [data[0]];
    lines.forEach(([, n], k) => { points[n] = data[k + 1]; });
    chart.destroy();
    box.dataset.points = JSON.stringify(Array.from(points, (column) => column ?? []));
    draw(box);
  }
}

document.querySelectorAll("[data-chart]").forEach(draw);
document.getElementById("live")?.addEventListener("point", (event) => add(JSON.parse(event.detail.data)));
addEventListener("resize", () => charts.forEach(({ chart, box }) => chart.setSize({ width: box.clientWidth, height: 200 })));

const button = document.getElementById("theme");
button.hidden = false;
button.addEventListener("click", () => {
  const root = document.documentElement;
  const dark = root.dataset.theme ? root.dataset.theme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
  root.dataset.theme = dark ? "light" : "dark";
  localStorage.setItem("rq_dlq.theme", root.dataset.theme);
  redraw();
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);

const PAGES = { o: "/", r: "/redrives", w: "/workers", p: "/policies", s: "/schedules" };
let after = "";
document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, textarea, select")) return;
  if (event.key === "/") {
    event.preventDefault();
    document.querySelector("input[type=search]")?.focus();
  } else if (after === "g" && PAGES[event.key]) {
    location.assign(document.body.dataset.root + PAGES[event.key]);
  }
  after = event.key;
});
