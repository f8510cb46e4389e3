// Small line charts (uPlot): history from the page, new points from the live feed. Colours come from the theme. There is no interpolation: a line
// keeps its value until the next point, and a point without a value is a gap.
(() => {
  "use strict";
  const KEEP_S = 900, WINDOW_S_MIN = 120; // time of the points that are kept; least width of the time axis
  const charts = new Map(); // box -> chart
  const UNITS = [[1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]];
  const short = (value) => {
    const [size, unit] = UNITS.find(([least]) => value >= least) ?? [1, ""];
    return `${+(value / size).toFixed(1)}${unit}`;
  };
  // UTC, as everywhere on the page. `step`: seconds between two labels.
  const clock = (t, step) => {
    const text = new Date(t * 1000).toISOString();
    return step >= 86400 ? text.slice(5, 10) : text.slice(11, step < 60 ? 19 : 16);
  };
  const instant = (t, span) => `${new Date(t * 1000).toISOString().slice(span > 86400 ? 5 : 11, 19).replace("T", " ")} UTC`;
  const exact = (value) => (value == null ? gettext("no data") : value.toLocaleString("en", { maximumFractionDigits: 1 }));
  const colourOf = (box, name) => {
    const probe = document.createElement("span");
    probe.style.color = `var(${name})`;
    box.append(probe);
    const colour = getComputedStyle(probe).color;
    probe.remove();
    return colour;
  };

  // `over`: the chart ends with its last point (a finished move). Otherwise it ends now. `since`, `until`: the range of the page.
  const timeRange = (times, over, since, until) => {
    if (since && over) return [since, until];
    if (since) return [Date.now() / 1000 - (until - since), Date.now() / 1000];
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

  // Vertical lines at changes, alerts and elections. The page lists them with links.
  const drawMarks = (u, marks, colours) => {
    const { top, height } = u.bbox, { min, max } = u.scales.x;
    u.ctx.save();
    u.ctx.setLineDash([2, 3]);
    for (const [at, kind] of marks) {
      if (at < min || at > max) continue;
      const x = Math.round(u.valToPos(at, "x", true));
      u.ctx.strokeStyle = colours[kind];
      u.ctx.lineWidth = 1.5;
      u.ctx.beginPath();
      u.ctx.moveTo(x, top);
      u.ctx.lineTo(x, top + height);
      u.ctx.stroke();
    }
    u.ctx.restore();
  };

  // The last point at or before `at`, -1 without one. A line keeps its value until the next point.
  const pointAt = (times, at) => {
    const after = times.findIndex((t) => t > at);
    return after === -1 ? times.length - 1 : after - 1;
  };

  // Time and value of a chart at time `at`, and the mark that is close to it.
  const showValue = ({ chart, readout, marks, span }, at) => {
    const [times, ...columns] = chart.data, i = pointAt(times, at);
    readout.hidden = i < 0;
    if (i < 0) return;
    const close = marks.filter(([t]) => Math.abs(chart.valToPos(t, "x") - chart.valToPos(at, "x")) < 5).map(([, , text]) => text);
    readout.textContent = [instant(at, span), columns.map((c) => exact(c[i])).join(gettext(", greatest ")), ...close.slice(0, 2)].join(" · ");
  };

  // The chart under the pointer sets the time for all charts: each of them would choose the point that is closest to the pointer in its own scale.
  const showValues = (u, readout) => {
    const { idx, left } = u.cursor;
    if (idx == null || left < 0) readout.hidden = true;
    else if (u.over.matches(":hover")) for (const entry of charts.values()) if (entry.readout) showValue(entry, u.data[0][idx]);
  };

  // The marks of the list below the charts, oldest first: [time in seconds, kind, text].
  const marksOf = (box) => [...(box.closest(".history")?.querySelectorAll(".marks li") ?? [])].reverse().map((li) => [
    Date.parse(li.querySelector("time").dateTime) / 1000,
    li.querySelector(".mark").dataset.kind,
    li.querySelector(".sub + span").textContent.trim(),
  ]);

  const build = (box) => {
    const [ink, soft, line, amber, blue, red] = ["--ink", "--soft", "--line", "--amber", "--blue", "--red"].map((name) => colourOf(box, name));
    const data = JSON.parse(box.dataset.points || "[[],[]]"), over = "over" in box.dataset;
    const since = Number(box.dataset.since || 0), until = Number(box.dataset.until || 0), span = until - since;
    const marks = marksOf(box);
    const colours = { change: blue, alert: red, election: amber, broker: soft };
    const times = Number(box.dataset.limitTimes || 1);
    let limit = Number(box.dataset.limit || 0) * times;
    box.textContent = "";
    if (data[0].length && !over && !since) { // no new point: the value is unchanged
      data[0].push(Date.now() / 1000);
      data[1].push(data[1].at(-1));
    }
    const stepped = uPlot.paths.stepped({ align: 1 }), readout = document.createElement("p");
    readout.className = "readout";
    readout.hidden = true;
    box.classList.toggle("no-data", data[1].every((value) => value == null));
    const axis = { stroke: soft, grid: { stroke: line, width: 1 }, ticks: { show: false }, font: "11px system-ui, sans-serif" };
    const options = {
      width: box.clientWidth,
      height: box.clientHeight,
      padding: [box.dataset.caption ? 24 : 10, 28, 0, 0],
      legend: { show: false },
      cursor: { y: false, points: { size: 5 }, ...(since ? { sync: { key: "history" } } : {}) },
      scales: {
        x: { time: true, range: (u) => timeRange(u.data[0], over, since, until) },
        y: { range: (u, low, high) => [0, valueMax(high, limit)] },
      },
      axes: [
        { ...axis, size: 24, space: 70, values: (u, ticks, i, space, step) => ticks.map((t) => clock(t, step)) },
        { ...axis, size: 46, space: 26, values: (u, ticks) => ticks.map(short) },
      ],
      series: [
        {},
        { stroke: ink, width: 1.4, fill: line, paths: stepped, points: { show: false } },
        ...(data[2] ? [{ stroke: soft, width: 1, paths: stepped, points: { show: false } }] : []),
      ],
      hooks: {
        draw: [(u) => drawLimit(u, limit, amber), (u) => drawMarks(u, marks, colours)],
        setCursor: since ? [(u) => showValues(u, readout)] : [],
      },
    };
    const chart = new uPlot(options, data, box);
    box.append(readout);
    return { chart, data, box, over, marks, span, readout: since ? readout : null, keep: since ? span : KEEP_S, setLimit: (value) => { limit = value * times; chart.redraw(); } };
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
    const [times, ...columns] = entry.data, now = Date.now() / 1000;
    if (entry.box.classList.contains("no-data")) { // a chart without data is one line high
      entry.box.classList.remove("no-data");
      entry.chart.setSize({ width: entry.box.clientWidth, height: entry.box.clientHeight });
    }
    times.push(now);
    for (const column of columns) column.push(value);
    while (times.length && times[0] < now - entry.keep) for (const column of entry.data) column.shift();
    entry.chart.setData(entry.data);
  };
  document.addEventListener("weir:points", (event) => {
    for (const [subject, metric, value] of event.detail)
      for (const entry of charts.values()) {
        if (entry.box.dataset.chart === `${subject}|${metric}` && !(entry.over && entry.box.dataset.since)) add(entry, value);
        else if (entry.box.dataset.limitMetric === metric && entry.box.dataset.chart.startsWith(`${subject}|`)) entry.setLimit(value);
      }
  });
  // No new point: the value is unchanged and the line continues.
  setInterval(() => {
    for (const entry of charts.values()) {
      const values = entry.data[1];
      if ((values.at(-1) ?? null) !== null && !entry.over && !("unfed" in entry.box.dataset) && document.querySelector(".live.on")) add(entry, values.at(-1));
    }
  }, 5000);
  // The table behind a chart is filled when it is opened.
  document.addEventListener("toggle", ({ target }) => {
    if (!target.open || !target.matches?.("details.values")) return;
    const box = target.closest("figure").querySelector("[data-chart]");
    const [times, ...columns] = charts.get(box)?.data ?? JSON.parse(box.dataset.points);
    const shown = target.querySelectorAll("th").length - 1;
    const rows = times.map((t, i) => {
      const row = document.createElement("tr");
      const texts = [new Date(t * 1000).toISOString().slice(0, 19).replace("T", " "), ...columns.slice(0, shown).map((c) => exact(c[i]))];
      texts.forEach((text, n) => {
        const cell = document.createElement("td");
        cell.textContent = text;
        if (n) cell.className = "num";
        row.append(cell);
      });
      return row;
    });
    if (rows.length) target.querySelector("tbody").replaceChildren(...rows.reverse());
  }, true);
  document.addEventListener("DOMContentLoaded", draw);
  document.addEventListener("htmx:afterSettle", draw);
  let resizing;
  addEventListener("resize", () => {
    clearTimeout(resizing);
    resizing = setTimeout(() => { for (const { chart, box } of charts.values()) chart.setSize({ width: box.clientWidth, height: box.clientHeight }); }, 150);
  });
})();
