// The cells of the page that change in place. Rows never move. The page subscribes to the subjects that it shows (data-subject) and to the updates
// that reload its panels (data-refresh), with its position in the numbered updates. The server closes a gap or requests a reload.
(() => {
  "use strict";
  const weir = (window.weir ??= {});
  let elements = new Map(); // subject -> elements
  let run = "", seq = -1; // position in the updates

  // The panels of a response must not be older than the updates that the page has.
  weir.position = () => `${run} ${seq}`;

  const collect = () => {
    elements = new Map();
    for (const element of document.querySelectorAll("[data-subject]")) {
      const subject = element.dataset.subject;
      if (!elements.has(subject)) elements.set(subject, []);
      elements.get(subject).push(element);
    }
  };

  const subscribe = () => {
    const panels = [...document.querySelectorAll("[data-refresh], [data-refresh-slowly]")];
    const names = panels.flatMap(({ dataset }) => [dataset.refresh, dataset.refreshSlowly].flatMap((list) => list?.split(" ") ?? []));
    weir.connection.send({ run, seq, language: document.documentElement.lang, subjects: [...new Set([...elements.keys(), ...names])] });
  };

  const subscribeAgain = () => {
    collect();
    subscribe();
  };

  // htmx reports each element of a new list or panel.
  let partsTimer = 0;
  const partsReplaced = () => {
    clearTimeout(partsTimer);
    partsTimer = setTimeout(subscribeAgain);
  };

  // A new page: its data is as of its own position.
  const opened = () => {
    const main = document.getElementById("main");
    run = main.dataset.run;
    seq = Number(main.dataset.seq);
    subscribeAgain();
  };

  const put = (subject, field, html) => {
    for (const element of elements.get(subject) || []) {
      const cells = element.dataset.f === field ? [element] : element.querySelectorAll(`[data-f="${field}"]`);
      for (const cell of cells) if (cell.innerHTML !== html) cell.innerHTML = html;
    }
  };

  document.addEventListener("DOMContentLoaded", opened);
  document.addEventListener("weir:connected", subscribe);
  document.addEventListener("htmx:afterSettle", (event) => {
    if (event.target.id === "main") opened();
    else if (event.target.closest("#main")) partsReplaced();
  });
  document.addEventListener("weir:message", ({ detail: message }) => {
    if (message.reload) return;
    run = message.run;
    seq = message.seq;
    for (const [subject, field, html] of message.cells) put(subject, field, html);
    for (const subject of message.gone) for (const row of elements.get(subject) || []) row.classList.add("gone");
    if (message.points.length) document.dispatchEvent(new CustomEvent("weir:points", { detail: message.points }));
    document.documentElement.dataset.seq = seq;
  });
})();
