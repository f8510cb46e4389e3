// Small line charts (uPlot): history from the page, new points from the live feed. Colours come from the theme. There is no interpolation: a line
// keeps its value until the next point.
(() => {
  "use strict";
  const KEEP_S = 900, WINDOW_S_MIN = 120; // time of the points that are kept; least width of the time axis
  const charts = new Map(); // box -> chart
  const UNITS = [[1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]];
  const short = (value) => {
    const [size, unit] = UNITS.find(([least]) => value >= least) ?? [1, ""];
    return `${+(value / size).toFixed(1)}${unit}`;
  };
  const clock = (t, step) => new Date(t * 1000).toISOString().slice(11, step < 60 ? 19 : 16);  // UTC, as everywhere on the page
  const colourOf = (box, name) => {
    const probe = document.createElement("span");
    probe.style.color = `var(${name})`;
    box.append(probe);
    const colour = getComputedStyle(probe).color;
    probe.remove();
    return colour;
  };

  // `over`: the chart ends with its last point (a finished move). Otherwise it ends now.
  const timeRange = (times, over) => {
    if (over && times.length) return [times[0], Math.max(times.at(-1), times[0] + 1)];
    const now = Date.now() / 1000;
    return [Math.min(now - WINDOW_S_MIN, Math.max(times[0] ?? now, now - KEEP_S)), now];
  };

  // A limit far above the values is not shown: it would flatten the line.
  const valueMax = (high, limit) => Math.max(1, high || limit || 1, limit < 4 * high ? limit : 0) * 1.15;

  // A limit is not a series: it is drawn without points, too.
  const drawLimit = (u, limit, colour) => {
    if (!limit || limit > u.scales.y.max) return;
    const y = Math.round(u.valToPos(limit, "y", true)), { left, width } = u.bbox;
    u.ctx.save();
    u.ctx.strokeStyle = colour;
    u.ctx.lineWidth = 1.5;
    u.ctx.setLineDash([6, 4]);
    u.ctx.beginPath();
    u.ctx.moveTo(left, y);
    u.ctx.lineTo(left + width, y);
    u.ctx.stroke();
    u.ctx.restore();
  };

  const build = (box) => {
    const [ink, soft, line, amber] = ["--ink", "--soft", "--line", "--amber"].map((name) => colourOf(box, name));
    const data = JSON.parse(box.dataset.points || "[[],[]]"), over = "over" in box.dataset;
    const times = Number(box.dataset.limitTimes || 1);
    let limit = Number(box.dataset.limit || 0) * times;
    box.textContent = "";
    if (data[0].length && !over) { // no new point: the value is unchanged
      data[0].push(Date.now() / 1000);
      data[1].push(data[1].at(-1));
    }
    box.classList.toggle("no-data", !data[0].length);
    const axis = { stroke: soft, grid: { stroke: line, width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    const options = {
      width: box.clientWidth,
      height: box.clientHeight,
      padding: [box.dataset.caption ? 24 : 10, 28, 0, 0],
      legend: { show: false },
      cursor: { y: false, points: { size: 5 } },
      scales: {
        x: { time: true, range: (u) => timeRange(u.data[0], over) },
        y: { range: (u, low, high) => [0, valueMax(high, limit)] },
      },
      axes: [
        { ...axis, size: 24, space: 70, values: (u, ticks, i, space, step) => ticks.map((t) => clock(t, step)) },
        { ...axis, size: 46, space: 26, values: (u, ticks) => ticks.map(short) },
      ],
      series: [{}, { stroke: ink, width: 1.4, fill: line, paths: uPlot.paths.stepped({ align: 1 }), points: { show: false } }],
      hooks: { draw: [(u) => drawLimit(u, limit, amber)] },
    };
    const chart = new uPlot(options, data, box);
    return { chart, data, box, over, setLimit: (value) => { limit = value * times; chart.redraw(); } };
  };

  const draw = () => {
    for (const [box, { chart }] of charts) {
      if (box.isConnected) continue;
      chart.destroy();
      charts.delete(box);
    }
    if (!window.uPlot) return;
    for (const box of document.querySelectorAll("[data-chart]")) if (!charts.has(box) && box.clientWidth) charts.set(box, build(box));
  };
  const add = (entry, value) => {
    const [times, values] = entry.data, now = Date.now() / 1000;
    entry.box.classList.remove("no-data");
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
  // No new point: the value is unchanged and the line continues.
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
