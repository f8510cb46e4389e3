// Reloads panels (data-refresh) after an update that has no cell, or the whole page after a gap in the updates. All panels that are due share one
// htmx request, and a hidden tab makes none: it reloads what has changed when it is shown again. An update named in data-refresh-slowly changes a panel
// all the time, as progress does: it reloads the panel at most every few seconds.
(() => {
  "use strict";
  const weir = (window.weir ??= {});
  const PAGE_MS_MIN = 3000; // minimum between reloads of the page
  const PANEL_MS_MIN = 1500; // minimum between requests for panels
  const PANEL_MS_MAX = 10000; // maximum of that minimum
  const PANEL_SPREAD_MS = 100; // until the first message, which has the time for the number of open pages
  const PANEL_SHARE = 10; // one page keeps a slow or busy server at most one part in this many of the time
  const REQUEST_RETRY_MS = 500; // between checks whether the request of a click has ended
  const UNSETTLED_MS = 3000; // between reloads of a panel with a pending change
  const LASTS_MS = 60000; // between reloads of a panel that shows how long something lasts: without an event no update reloads it
  const SLOW_MS = 5000; // minimum between reloads of a panel for data-refresh-slowly
  const due = new Set();
  const later = new WeakSet(); // panels that become due when SLOW_MS has passed
  const reloadedAt = new WeakMap(); // time of the last request of a panel, or of its first duration
  let pageDue = false, pageReloadedAt = -Infinity;
  let panelMs = PANEL_MS_MIN; // minimum between requests, after the time that the last one took
  let panelSpreadMs = PANEL_SPREAD_MS; // an update reaches all open pages at once: their requests are spread over this time
  let requested = null, panelsReloadedAt = -Infinity; // requested: panels of the request in flight, with the ids that the response has

  const main = () => document.getElementById("main");
  const showHint = () => document.getElementById("gap")?.removeAttribute("hidden");
  const hasFocus = (element) => element.contains(document.activeElement);
  const hasInput = (element) => hasFocus(element) && /^(INPUT|TEXTAREA|SELECT)$/.test(document.activeElement.tagName);
  const inUse = (panel) => hasInput(panel) || (hasFocus(panel) && panel.querySelector("[data-editing]"));

  const reloadPage = () => {
    if (document.hidden) pageDue = true;
    else if (performance.now() - pageReloadedAt < PAGE_MS_MIN) setTimeout(reloadPage, PAGE_MS_MIN);
    else if (document.querySelector(".htmx-request")) setTimeout(reloadPage, REQUEST_RETRY_MS); // a reload would replace the target of the request
    else {
      pageReloadedAt = performance.now();
      if (main().querySelector("[data-editing]") || hasInput(main())) showHint(); // keep the input of the user
      else htmx.ajax("GET", location.href, { target: "#main", select: "#main", swap: "outerHTML" });
    }
  };

  const reloadPanels = (name) => {
    for (const panel of document.querySelectorAll(`[data-refresh~="${CSS.escape(name)}"]`)) {
      if (panel.dataset.refreshAs === "hint") showHint();
      else due.add(panel);
    }
    for (const panel of document.querySelectorAll(`[data-refresh-slowly~="${CSS.escape(name)}"]`)) reloadLater(panel);
    requestSoon();
  };

  const reloadLater = (panel) => {
    const waitMs = (reloadedAt.get(panel) ?? -Infinity) + SLOW_MS - performance.now();
    if (waitMs <= 0) due.add(panel);
    else if (!later.has(panel)) {
      later.add(panel);
      setTimeout(() => {
        later.delete(panel);
        due.add(panel);
        requestSoon();
      }, waitMs);
    }
  };

  const requestSoon = () => {
    if (requested || document.hidden || !due.size) return;
    requested = { panels: new Map(), received: new Set() };
    setTimeout(request, Math.max(0, panelMs - (performance.now() - panelsReloadedAt)) + panelSpreadMs * Math.random());
  };

  const request = async () => {
    panelsReloadedAt = performance.now();
    for (const panel of due) {
      if (panel.isConnected && inUse(panel)) continue; // remains due until the focus leaves it
      if (panel.isConnected) {
        requested.panels.set(panel.id, panel);
        reloadedAt.set(panel, panelsReloadedAt);
      }
      due.delete(panel);
    }
    const ids = [...requested.panels.keys()];
    try {
      if (ids.length) {
        await htmx.ajax("GET", location.pathname + location.search, {
          source: "#panel-requests",
          target: "#panel-requests",
          swap: "none",
          selectOOB: ids.map((id) => `#${id}:innerHTML`).join(","),
          headers: { "Weir-Panels": ids.join(" "), "Weir-Position": weir.position() },
        });
      }
    } catch {
      for (const panel of requested.panels.values()) due.add(panel); // no response: retried
    }
    if (ids.length) panelMs = Math.min(PANEL_MS_MAX, Math.max(PANEL_MS_MIN, PANEL_SHARE * (performance.now() - panelsReloadedAt)));
    requested = null;
    requestSoon();
  };

  const onResponse = (event) => {
    if (event.target.id !== "panel-requests") return;
    const { status } = event.detail.xhr;
    if (status >= 500) for (const panel of requested.panels.values()) due.add(panel); // retried
    // Another page may have been opened meanwhile.
    event.detail.shouldSwap = status === 200 && [...requested.panels.values()].some((panel) => panel.isConnected);
  };

  // `target` is the element of the page with the id of a panel. It is another one if another page or list was opened during the request.
  const beforePanel = (event) => {
    const { target: panel, fragment } = event.detail;
    if (!requested?.panels.has(panel.id)) return; // of another request, like the progress of a read of messages
    const current = requested.panels.get(panel.id) === panel;
    if (current) {
      requested.received.add(panel.id);
      panel.hidden = false;
    }
    if (!current || inUse(panel)) due.add(panel);
    event.detail.shouldSwap = current && !inUse(panel) && fragment.innerHTML !== panel.innerHTML;
    if (event.detail.shouldSwap) {
      keepInput(panel, fragment);
      keepFocus(panel);
    }
  };

  const isBox = (control) => control.type === "checkbox" || control.type === "radio";
  const sameControl = (a, b) =>
    a.tagName === b.tagName &&
    ["name", "type", "href"].every((name) => a.getAttribute(name) === b.getAttribute(name)) &&
    (!isBox(a) || a.value === b.value);

  const keepInput = (panel, fragment) => {
    const fresh = [...fragment.querySelectorAll("input, textarea")];
    for (const control of panel.querySelectorAll("input, textarea")) {
      if (control.value === control.defaultValue && control.checked === control.defaultChecked) continue;
      const same = fresh.find((f) => sameControl(f, control));
      if (same) [same.value, same.checked] = [control.value, control.checked];
    }
  };

  const keepFocus = (panel) => {
    const focused = document.activeElement;
    if (!panel.contains(focused)) return;
    const restore = () => {
      const same = [...panel.querySelectorAll(focused.tagName)].filter((control) => sameControl(control, focused));
      (same.find((control) => control.textContent === focused.textContent) ?? same[0])?.focus({ preventScroll: true });
    };
    document.addEventListener("htmx:afterSwap", restore, { once: true });
  };

  // A panel that the response does not have is hidden until a response has it.
  const afterPanels = (event) => {
    if (event.target.id !== "panel-requests") return;
    for (const [id, panel] of requested.panels) if (!requested.received.has(id)) panel.hidden = true;
  };

  document.addEventListener("DOMContentLoaded", () => {
    // A pending change has no update that names its panel: the panel is reloaded until the change is applied.
    setInterval(() => {
      if (weir.connection.isPaused() || document.hidden || weir.connection.disconnectedMs()) return;
      for (const change of document.querySelectorAll("[data-refresh] [data-unsettled]")) due.add(change.closest("[data-refresh]"));
      for (const duration of document.querySelectorAll("[data-refresh] [data-lasts]")) {
        const panel = duration.closest("[data-refresh]");
        if (!reloadedAt.has(panel)) reloadedAt.set(panel, performance.now());
        else if (performance.now() - reloadedAt.get(panel) >= LASTS_MS) due.add(panel);
      }
      requestSoon();
    }, UNSETTLED_MS);
  });
  document.addEventListener("visibilitychange", () => {
    if (document.hidden) return;
    if (pageDue) {
      pageDue = false;
      reloadPage();
    } else requestSoon();
  });
  document.addEventListener("weir:message", ({ detail: message }) => {
    if (message.reload) return reloadPage();
    panelSpreadMs = message.panel_spread_ms;
    message.refresh.forEach(reloadPanels);
  });
  document.addEventListener("htmx:beforeSwap", onResponse);
  document.addEventListener("htmx:oobBeforeSwap", beforePanel);
  document.addEventListener("htmx:afterSwap", afterPanels);
  // htmx looks up inherited hx-select and hx-swap when the response arrives. If a live update has removed the clicked element by then, it finds
  // none and inserts the whole response into #main: a page inside the page. So the element gets these attributes before the request.
  document.addEventListener("htmx:beforeRequest", (event) => {
    const { elt: element, target } = event.detail;
    for (const name of ["hx-select", "hx-swap"]) {
      const owner = element.closest(`[${name}]`);
      if (owner && owner !== element) element.setAttribute(name, owner.getAttribute(name));
    }
    if (element !== document.body && target?.id === "main") htmx.trigger(document.body, "htmx:abort"); // the reload in flight has the same target
  });
  weir.reloadPage = reloadPage;
})();
