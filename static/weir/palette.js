// The command palette: Ctrl+K opens it, typing filters, arrows choose, Enter opens. Its entries are links that the server chooses (console/palette.py).
(() => {
  "use strict";
  const WAIT_MS = 120;
  const dialog = () => document.getElementById("palette");
  const field = () => document.getElementById("palette-query");
  const list = () => document.getElementById("palette-list");
  const options = () => [...list().querySelectorAll("[role=option]")];
  let timer = 0;
  let request = null; // of the latest text: an earlier response must not replace a later one
  let loaded = null; // settled when the list belongs to the latest text

  const choose = (option) => {
    options().forEach((o) => o.setAttribute("aria-selected", o === option ? "true" : "false"));
    field().setAttribute("aria-activedescendant", option?.id || "");
    option?.scrollIntoView({ block: "nearest" });
  };
  const load = () => (loaded = fill());
  const fill = async () => {
    clearTimeout(timer);
    timer = 0;
    request?.abort();
    request = new AbortController();
    try {
      const response = await fetch(`${dialog().dataset.url}?q=${encodeURIComponent(field().value)}`, { signal: request.signal });
      if (!response.ok || response.redirected) throw new Error(`status ${response.status}`);
      list().innerHTML = await response.text();
      window.htmx?.process(list());
      choose(options()[0]);
    } catch (error) {
      if (error.name === "AbortError") return;
      list().textContent = gettext("The console does not respond.");
    }
  };
  const open = async () => {
    await (timer ? load() : loaded); // until then the list belongs to an earlier text
    list().querySelector("[aria-selected=true]")?.click();
  };
  const move = (by) => {
    const all = options();
    if (!all.length) return;
    const now = all.findIndex((o) => o.getAttribute("aria-selected") === "true");
    choose(all[(now + by + all.length) % all.length]);
  };

  document.addEventListener("keydown", (event) => {
    if ((event.ctrlKey || event.metaKey) && event.key.toLowerCase() === "k" && dialog()) {
      event.preventDefault();
      if (!dialog().open) {
        document.querySelectorAll("dialog[open]").forEach((d) => d.close());
        dialog().showModal();
        field().value = "";
        load();
      }
      field().focus();
      return;
    }
    if (event.target !== field() || event.isComposing) return;
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      move(event.key === "ArrowDown" ? 1 : -1);
    } else if (event.key === "Enter") {
      event.preventDefault();
      open();
    }
  });
  document.addEventListener("input", (event) => {
    if (event.target !== field()) return;
    clearTimeout(timer);
    timer = setTimeout(load, WAIT_MS);
  });
  document.addEventListener("click", (event) => {
    if (event.target.closest("#palette-list a") || event.target === dialog()) dialog().close();
  });
})();
