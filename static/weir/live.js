// The page's live half: one websocket, values changed in place. Laws: rows never move; a gap in the numbers is closed by the server or the
// page is read anew; the data's age is always shown and grows by itself when nothing is heard.
(() => {
  "use strict";
  const RETRY_MS = [250, 500, 1000, 2000, 4000, 8000]; // between tries to connect; a restart of the web process takes a second or two
  const RELOAD_MS_MIN = 3000; // between full readings of a page, whatever the server says
  const PANEL_MS_MIN = 1500; // between readings of one panel
  const STALE_S = 15, LOST_S = 60;
  const CUT_S = 4; // without a connection before a page says so in words: a restart of the web process is not worth a fright
  const main = () => document.getElementById("main");
  let socket = null, tries = 0, paused = false, run = "", seq = -1;
  let index = new Map(), panels = new Map(), reloadedAt = -Infinity;
  let age = null, heardAt = performance.now(), cutAt = null;

  const light = (state, words) => {
    const button = document.getElementById("live");
    if (!button) return;
    button.className = `live ${state}`;
    button.querySelector("span").textContent = words;
    button.setAttribute("aria-pressed", String(paused));
  };

  const collect = () => {
    index = new Map();
    panels = new Map();
    for (const element of document.querySelectorAll("[data-subject]")) {
      const name = element.dataset.subject;
      if (!index.has(name)) index.set(name, []);
      index.get(name).push(element);
    }
    for (const element of document.querySelectorAll("[data-refresh]")) {
      for (const name of element.dataset.refresh.split(" ")) {
        if (!panels.has(name)) panels.set(name, []);
        panels.get(name).push(element);
      }
    }
  };

  const hello = () => {
    if (!socket || socket.readyState !== WebSocket.OPEN || paused) return;
    socket.send(JSON.stringify({ run, seq, subjects: [...new Set([...index.keys(), ...panels.keys()])] }));
  };

  // A page (or a part of it) is new: it was read at the number it carries.
  const opened = () => {
    collect();
    const at = main();
    if (at && at.dataset.seq !== undefined) {
      run = at.dataset.run;
      seq = Number(at.dataset.seq);
    }
    hello();
  };

  const put = (subject, field, html) => {
    for (const row of index.get(subject) || []) {
      const cells = row.dataset.f === field ? [row] : row.querySelectorAll(`[data-f="${field}"]`);
      for (const cell of cells) if (cell.innerHTML !== html) cell.innerHTML = html;
    }
  };

  const readAgain = () => {
    if (performance.now() - reloadedAt < RELOAD_MS_MIN) {
      setTimeout(readAgain, RELOAD_MS_MIN);
      return;
    }
    reloadedAt = performance.now();
    if (editing()) {
      document.getElementById("gap")?.removeAttribute("hidden"); // never throw away what somebody is typing
      return;
    }
    htmx.ajax("GET", location.href, { target: "#main", select: "#main", swap: "outerHTML" });
  };

  const editing = () => {
    const at = document.activeElement;
    return !!main()?.querySelector("[data-editing]") || (main()?.contains(at) && /^(INPUT|TEXTAREA|SELECT)$/.test(at.tagName));
  };

  const readPanel = (name) => {
    for (const element of panels.get(name) || []) {
      if (element.dataset.refreshAs === "hint") {
        document.getElementById("gap")?.removeAttribute("hidden");
        continue;
      }
      if (element.weirWaiting) continue;
      const wait = Math.max(0, PANEL_MS_MIN - (performance.now() - (element.weirReadAt ?? -Infinity)));
      element.weirWaiting = setTimeout(() => {
        element.weirWaiting = null;
        if (!element.isConnected || element.contains(document.activeElement) && editing()) return;
        element.weirReadAt = performance.now();
        fetch(location.href, { headers: { "HX-Request": "true" }, credentials: "same-origin" })
          .then((answer) => {
            const login = answer.headers.get("HX-Redirect");
            if (login) location.href = login; // the session has ended
            return answer.ok && !login ? answer.text() : null;
          })
          .then((text) => {
            if (text === null || !element.isConnected) return;
            const fresh = new DOMParser().parseFromString(text, "text/html").getElementById(element.id);
            if (!fresh || fresh.innerHTML === element.innerHTML) return;
            element.innerHTML = fresh.innerHTML;
            htmx.process(element);
            collect();
            hello();
          })
          .catch(() => {});
      }, wait);
    }
  };

  const hear = (message) => {
    heardAt = performance.now();
    if (message.reload) return readAgain();
    run = message.run;
    seq = message.seq;
    age = message.age_s;
    for (const [subject, field, html] of message.cells) put(subject, field, html);
    for (const subject of message.gone) for (const row of index.get(subject) || []) row.classList.add("gone");
    for (const name of message.refresh) readPanel(name);
    if (message.points.length) document.dispatchEvent(new CustomEvent("weir:points", { detail: message.points }));
    document.documentElement.dataset.seq = seq;
  };

  const connect = () => {
    if (paused || document.body.classList.contains("bare")) return;
    const scheme = location.protocol === "https:" ? "wss" : "ws";
    socket = new WebSocket(`${scheme}://${location.host}/ws/live`);
    socket.onopen = () => {
      tries = 0;
      cutAt = null;
      light("on", "live");
      hello();
    };
    socket.onmessage = (event) => hear(JSON.parse(event.data));
    socket.onclose = (event) => {
      socket = null;
      if (event.code === 4401) return location.reload(); // signed out elsewhere
      if (paused) return;
      cutAt ??= performance.now();
      light("cut", "reconnecting");
      setTimeout(connect, RETRY_MS[Math.min(tries++, RETRY_MS.length - 1)] * (0.75 + Math.random() / 2));
    };
  };

  const tick = () => {
    const shown = document.getElementById("age");
    if (!shown) return;
    const now = age === null ? null : age + (performance.now() - heardAt) / 1000;
    const words = now === null ? "never" : now < 120 ? `${Math.floor(now)} s` : now < 7200 ? `${Math.floor(now / 60)} min` : `${Math.floor(now / 3600)} h`;
    shown.textContent = words;
    shown.className = now === null || now > LOST_S ? "lost" : now > STALE_S ? "old" : "";
    warn(now, words);
  };

  // Old figures look like new ones; so the page says in words that they are old, and whose silence it is.
  const warn = (now, words) => {
    const box = document.getElementById("stale");
    if (!box) return;
    const cut = cutAt !== null && performance.now() - cutAt > CUT_S * 1000;
    const old = now !== null && now > STALE_S;
    let why = "";
    if (paused) why = old ? "Updates are paused." : "";
    else if (cut) why = "The console does not answer; this page tries again by itself.";
    else if (old) why = "The observer is silent: nothing was read from the cluster.";
    box.hidden = !why;
    if (why) box.textContent = now === null ? why : `${why} What you see is ${words} old.`;
    box.classList.toggle("lost", now !== null && now > LOST_S);
    if (why) document.documentElement.dataset.old = "1";
    else delete document.documentElement.dataset.old;
  };

  document.addEventListener("DOMContentLoaded", () => {
    const shown = document.getElementById("age");
    if (!shown) return;
    age = shown.dataset.age === "" ? null : Number(shown.dataset.age);
    opened();
    connect();
    tick();
    setInterval(tick, 1000);
    document.getElementById("live").addEventListener("click", () => {
      paused = !paused;
      if (paused) {
        socket?.close();
        light("", "paused");
      } else {
        light("", "connecting");
        connect();
      }
    });
  });
  document.addEventListener("htmx:afterSettle", (event) => {
    if (event.target.id === "main" || main()?.contains(event.target)) {
      if (event.target.id === "main") opened();
      else {
        collect();
        hello();
      }
    }
  });
  window.weir = { readAgain };
})();
