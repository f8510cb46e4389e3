// The live tail of the Messages page: starts it, pauses it, stops it and shows its rows. The server decides what is shown.
(() => {
  "use strict";
  const weir = (window.weir ??= {});
  if (weir.tail) return; // the page was opened before: its listeners are those of the document
  weir.tail = true;
  let number = 0; // of the present tail; updates of an earlier one are ignored
  let state = "ended", visibleTimer = null, running = null; // running: the element of the tail

  const tail = () => document.getElementById("tail");
  const part = (name) => tail().querySelector(`[data-tail-${name}]`);
  const button = (name) => tail().querySelector(`[data-tail="${name}"]`);
  const send = (message) => weir.connection.send({ tail: { id: number, ...message } });
  const sendVisible = () => {
    if (!document.hidden && state !== "ended") send({ do: "visible" });
  };

  const LABELS = { starting: gettext("Starting"), live: gettext("Live"), paused: gettext("Paused"), ended: gettext("Ended") };
  const showState = (now, note) => {
    const before = state;
    state = now;
    part("state").textContent = LABELS[now];
    for (const name of ["pause", "stop"]) button(name).disabled = now !== "live" && now !== "paused";
    button("pause").firstChild.textContent = `${now === "paused" ? gettext("Resume") : gettext("Pause")} `;
    button("start").hidden = now !== "ended";
    part("reason").textContent = note;
    // A screen reader announces changes of the state only: the numbers change twice a second.
    if (before !== now || note) part("note").textContent = note || `${LABELS[now]}. ${now === "starting" ? "" : part("status").textContent}`;
  };

  const start = () => {
    number += 1;
    running = tail();
    showState("starting", "");
    send({ do: "start", query: running.dataset.query, language: document.documentElement.lang });
    clearInterval(visibleTimer);
    visibleTimer = setInterval(sendVisible, Number(running.dataset.visibleSeconds) * 1000);
  };

  const end = () => {
    clearInterval(visibleTimer);
    if (state !== "ended") send({ do: "stop" });
    state = "ended";
    running = null;
  };

  const addRows = (rows) => {
    const body = tail().querySelector("tbody");
    if (rows.length) tail().querySelector("[data-tail-empty]")?.remove();
    body.insertAdjacentHTML("afterbegin", rows.join(""));
    const kept = Number(tail().dataset.rowsKept);
    while (body.rows.length > kept) body.lastElementChild.remove();
  };

  const toggle = () => send({ do: state === "paused" ? "resume" : "pause" });

  document.addEventListener("weir:tail", ({ detail: update }) => {
    if (!tail() || update.id !== number || state === "ended") return;
    addRows(update.rows);
    if (update.status) part("status").innerHTML = update.status;
    showState(update.state, update.note);
    if (update.state === "ended") clearInterval(visibleTimer);
  });
  // The page of a tail was opened or left, or the connection was lost and is back.
  const check = () => {
    if (running && running !== tail()) end();
    if (tail() && tail() !== running && weir.connection.isOpen()) start();
  };
  document.addEventListener("weir:connected", () => {
    if (tail() && state !== "ended") start(); // records of the time without a connection are not shown
    else check();
  });
  document.addEventListener("weir:disconnected", () => {
    if (tail() && state !== "ended") showState("starting", gettext("The connection was lost. The tail starts again when it is back."));
  });
  document.addEventListener("htmx:afterSettle", check);
  document.addEventListener("htmx:historyRestore", check);
  document.addEventListener("visibilitychange", sendVisible);
  document.addEventListener("click", (event) => {
    const name = event.target.closest("[data-tail]")?.dataset.tail;
    if (name === "pause") toggle();
    else if (name === "stop") send({ do: "stop" });
    else if (name === "start") start();
  });
  document.addEventListener("keydown", (event) => {
    if (event.key !== " " || event.ctrlKey || event.metaKey || event.altKey || !tail()) return;
    if (event.target.closest("input, textarea, select, button, summary, a, [contenteditable]") || document.querySelector("dialog[open]")) return;
    if (state !== "live" && state !== "paused") return;
    event.preventDefault();
    toggle();
  });
  check();
})();
