// Small line charts (uPlot): a past from the page, a present from the live feed. Law: colours come from the theme, nothing is guessed between
// points: a line holds its value until the next one is heard.
(() => {
  "use strict";
  const KEEP_S = 900, WINDOW_S_MIN = 120, charts = new Map();
  const short = (v) => (v >= 1e9 ? `${+(v / 1e9).toFixed(1)}G` : v >= 1e6 ? `${+(v / 1e6).toFixed(1)}M` : v >= 1e3 ? `${+(v / 1e3).toFixed(1)}k` : `${+v.toFixed(1)}`);
  const clock = (t, step) => new Date(t * 1000).toISOString().slice(11, step < 60 ? 19 : 16);  // UTC, as everywhere on the page
  const build = (box) => {
    const probe = (name) => {
      const span = document.createElement("span");
      span.style.color = `var(${name})`;
      box.append(span);
      const colour = getComputedStyle(span).color;
      span.remove();
      return colour;
    };
    const ink = probe("--ink"), soft = probe("--soft"), line = probe("--line"), amber = probe("--amber");
    const data = JSON.parse(box.dataset.points || "[[],[]]"), over = "over" in box.dataset;
    const times = Number(box.dataset.limitTimes || 1);
    let limit = Number(box.dataset.limit || 0) * times;
    box.textContent = "";
    if (data[0].length && !over) { data[0].push(Date.now() / 1000); data[1].push(data[1].at(-1)); }  // what says nothing new is as it was
    box.classList.toggle("quiet-chart", !data[0].length);
    const axis = { stroke: soft, grid: { stroke: line, width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    const chart = new uPlot({
      width: box.clientWidth, height: box.clientHeight, padding: [box.dataset.caption ? 24 : 10, 28, 0, 0], legend: { show: false },
      cursor: { y: false, points: { size: 5 } },
      scales: { x: { time: true, range: (u) => { if (over && u.data[0].length) return [u.data[0][0], Math.max(u.data[0].at(-1), u.data[0][0] + 1)]; const now = Date.now() / 1000, first = u.data[0][0] ?? now; return [Math.min(now - WINDOW_S_MIN, Math.max(first, now - KEEP_S)), now]; } }, y: { range: (u, low, high) => [0, Math.max(1, high || limit || 1, limit < 4 * high ? limit : 0) * 1.15] } },  // a limit far above hides the line
      axes: [{ ...axis, size: 24, space: 70, values: (u, ticks, i, space, step) => ticks.map((t) => clock(t, step)) }, { ...axis, size: 46, space: 26, values: (u, ticks) => ticks.map(short) }],
      series: [{}, { stroke: ink, width: 1.4, fill: line, paths: uPlot.paths.stepped({ align: 1 }), points: { show: false } }],
      // A limit is not a series: it holds whether or not anything was heard.
      hooks: { draw: [(u) => {
        if (!limit || limit > u.scales.y.max) return;
        const y = Math.round(u.valToPos(limit, "y", true)), { left, width } = u.bbox;
        u.ctx.save();
        u.ctx.strokeStyle = amber; u.ctx.lineWidth = 1.5; u.ctx.setLineDash([6, 4]);
        u.ctx.beginPath(); u.ctx.moveTo(left, y); u.ctx.lineTo(left + width, y); u.ctx.stroke();
        u.ctx.restore();
      }] },
    }, data, box);
    return { chart, data, box, over, setLimit: (value) => { limit = value * times; chart.redraw(); } };
  };
  const draw = () => {
    for (const [box] of charts) if (!box.isConnected) { charts.get(box).chart.destroy(); charts.delete(box); }
    if (!window.uPlot) return;
    for (const box of document.querySelectorAll("[data-chart]")) if (!charts.has(box) && box.clientWidth) charts.set(box, build(box));
  };
  const add = (entry, value) => {
    const [times, values] = entry.data, now = Date.now() / 1000;
    entry.box.classList.remove("quiet-chart");
    times.push(now);
    values.push(value);
    while (times.length && times[0] < now - KEEP_S) { times.shift(); values.shift(); }
    entry.chart.setData(entry.data);
  };
  document.addEventListener("weir:points", (event) => {
    for (const [subject, figure, value] of event.detail)
      for (const entry of charts.values()) {
        if (entry.box.dataset.chart === `${subject}|${figure}`) add(entry, value);
        else if (entry.box.dataset.limitFigure === figure && entry.box.dataset.chart.startsWith(`${subject}|`)) entry.setLimit(value);
      }
  });
  // What says nothing new is as it was: the line goes on.
  setInterval(() => {
    for (const entry of charts.values()) {
      const values = entry.data[1];
      if (values.length && !entry.over && document.querySelector(".live.on")) add(entry, values[values.length - 1]);
    }
  }, 5000);
  document.addEventListener("DOMContentLoaded", draw);
  document.addEventListener("htmx:afterSettle", draw);
  let resizing;
  addEventListener("resize", () => {
    clearTimeout(resizing);
    resizing = setTimeout(() => { for (const { chart, box } of charts.values()) chart.setSize({ width: box.clientWidth, height: box.clientHeight }); }, 150);
  });
})();
