// The menu of clusters: each link leads to the same page of the other console. Without this file a link leads to the overview.
(() => {
  "use strict";
  // Numbers of brokers, partitions and offsets mean the same in each cluster. Those of moves, plans and other rows do not: the link leads to their list.
  const SAME_NUMBERS = ["brokers", "topics"];

  const samePage = () => {
    const parts = location.pathname.split("/");
    const number = SAME_NUMBERS.includes(parts[1]) ? -1 : parts.findIndex((part) => /^\d+$/.test(part));
    return number < 0 ? location.pathname + location.search : parts.slice(0, number).join("/") + "/";
  };

  // Navigation replaces #main only, so the links are set when the menu is used.
  const update = (event) => {
    const menu = event.target.closest?.("#cluster-menu");
    menu?.querySelectorAll("[data-console]").forEach((link) => { link.href = link.dataset.console + samePage(); });
  };
  for (const name of ["pointerdown", "focusin", "click"]) document.addEventListener(name, update, true);
})();
