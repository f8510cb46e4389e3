// Keyboard shortcuts: g + letter opens a section, / searches, j and k move between rows, Enter opens, x selects, ? shows all. Also the state of
// the navigation, toasts and typed confirmations. No logic here: every operation is a link or a form that works without this file.
(() => {
  "use strict";
  const typing = (at) => at && (/^(TEXTAREA|SELECT)$/.test(at.tagName) || (at.tagName === "INPUT" && !/^(checkbox|radio)$/.test(at.type)) || at.isContentEditable);
  let prefixAt = 0; // ms, when g was pressed
  const rows = () => [...document.querySelectorAll("#main tbody:not([hidden]) tr:not(.open-row, .subject, [hidden])")];
  const moveRow = (by) => {
    const all = rows();
    if (!all.length) return;
    const now = all.findIndex((r) => r.classList.contains("at"));
    const next = all[Math.min(all.length - 1, Math.max(0, now < 0 ? (by > 0 ? 0 : all.length - 1) : now + by))];
    all.forEach((r) => r.classList.toggle("at", r === next));
    next.scrollIntoView({ block: "nearest" });
  };
  const at = () => document.querySelector("#main tr.at");

  const showKeys = async () => {
    const dialog = document.getElementById("keys");
    if (!dialog) return;
    try {
      const response = await fetch(dialog.dataset.url);
      if (!response.ok || response.redirected) throw new Error(`status ${response.status}`);
      dialog.innerHTML = await response.text();
    } catch {
      dialog.textContent = gettext("The console does not respond.");
    }
    if (!dialog.open) dialog.showModal();
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") {
      document.querySelectorAll("details.menu[open]").forEach((d) => (d.open = false));
      if (typing(document.activeElement)) document.activeElement.blur();
      return;
    }
    if (typing(event.target) || document.querySelector("dialog[open]")) return;
    if (prefixAt && Date.now() - prefixAt < 1200) {
      prefixAt = 0;
      const link = document.querySelector(`.rail [data-go="${CSS.escape(event.key)}"]`);
      if (link) {
        event.preventDefault();
        link.click();
      }
      return;
    }
    const press = (selector) => {
      const found = document.querySelector(selector);
      if (found) {
        event.preventDefault();
        found.matches("input") ? found.select() || found.focus() : found.click();
      }
    };
    switch (event.key) {
      case "g": prefixAt = Date.now(); break;
      case "/": press("#find"); break;
      case "f": press("#main input[type=search]"); break;
      case "j": moveRow(1); break;
      case "k": moveRow(-1); break;
      case "Enter": if (event.target === document.body || event.target.id === "main") at()?.querySelector("a")?.click(); break;
      case "x": at()?.querySelector("input[type=checkbox]")?.click(); break;
      case "n": press("#main [data-key=n]"); break;
      case "[": press("#main [rel=prev]"); break;
      case "]": press("#main [rel=next]"); break;
      case "r": window.weir?.reloadPage(); break;
      case "a": case "c": case "d": case "l": case "i": case "s": case "b": {
        // Of the current row, else of the page.
        const own = at()?.querySelector(`[data-key="${event.key}"]`);
        if (own) {
          event.preventDefault();
          own.click();
        } else press(`#main [data-key="${event.key}"]`);
        break;
      }
      case "?": showKeys(); break;
    }
  });

  document.addEventListener("click", (event) => {
    for (const menu of document.querySelectorAll("details.menu[open]")) if (!menu.contains(event.target) || event.target.closest("a")) menu.open = false;
    if (event.target.closest("[data-keys-help]")) showKeys();
    if (event.target.closest("[data-reload]")) window.weir?.reloadPage();
    const all = event.target.closest("[data-check-all]");
    if (all) document.querySelectorAll(`input[name="${CSS.escape(all.dataset.checkAll)}"]`).forEach((box) => (box.checked = all.checked));
  });

  // The button of a deletion is enabled when the name of the object is typed.
  const updateConfirmation = (form) => {
    const box = form.querySelector("[data-type-name]");
    const button = form.querySelector("button.sure");
    if (box && button) button.disabled = box.value !== box.dataset.typeName;
  };
  document.addEventListener("input", (event) => event.target.form && updateConfirmation(event.target.form));
  // A table that is wider than its frame scrolls in it. The others do not: their head stays in sight while the page scrolls.
  const fitTables = () => {
    for (const frame of document.querySelectorAll("main .wrap"))
      frame.classList.toggle("scrolls", (frame.querySelector("table")?.offsetWidth ?? 0) > frame.clientWidth + 1);
  };
  // On a phone the navigation is wider than the window.
  const showSection = () => {
    const current = document.querySelector(".rail [aria-current]");
    if (current) current.closest(".rail").scrollLeft = current.offsetLeft - 60;
  };
  addEventListener("resize", () => {
    fitTables();
    showSection();
  });
  const settle = () => {
    fitTables();
    const main = document.getElementById("main");
    const nav = main?.dataset.nav;
    document.querySelectorAll(".rail [data-go]").forEach((link) => {
      if (link.getAttribute("href") === nav) link.setAttribute("aria-current", "page");
      else link.removeAttribute("aria-current");
    });
    showSection();
    document.querySelectorAll("#main form").forEach(updateConfirmation);
    document.querySelectorAll(".toast:not([data-seen])").forEach((toast) => {
      toast.dataset.seen = "1";
      const left = toast.querySelector(".countdown");
      let seconds = Number(left?.dataset.seconds || 6);
      const timer = setInterval(() => {
        seconds -= 1;
        if (left) left.textContent = seconds;
        if (seconds <= 0 || !toast.isConnected) {
          clearInterval(timer);
          toast.remove();
        }
      }, 1000);
    });
  };
  document.addEventListener("DOMContentLoaded", settle);
  document.addEventListener("htmx:afterSettle", settle);
})();
