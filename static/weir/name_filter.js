// A filter of a long table by the names in its first column. Each typed word must be a part of the name. Hidden fields are sent with the form, so a typed value
// is not lost. Without this script the filter is hidden and all rows are shown.
(() => {
  "use strict";
  const box = document.querySelector("#main .name-filter");
  if (!box) return; // the page was replaced before this script was loaded
  const field = box.querySelector("input"), count = box.querySelector("output");
  const bodies = [...document.querySelectorAll("#main tbody:has(> .subject)")];
  const rows = bodies.flatMap((body) => [...body.querySelectorAll("tr:not(.subject)")]);
  const filter = () => {
    const words = field.value.toLowerCase().split(/\s+/).filter(Boolean);
    for (const row of rows) {
      const name = row.cells[0].textContent.toLowerCase();
      row.hidden = !words.every((word) => name.includes(word));
    }
    for (const body of bodies) body.hidden = !body.querySelector("tr:not(.subject, [hidden])");
    const shown = rows.filter((row) => !row.hidden).length;
    count.textContent = words.length ? interpolate(gettext("%(shown)s of %(all)s"), { shown, all: rows.length }, true) : "";
  };
  field.addEventListener("input", filter);
  field.addEventListener("keydown", (event) => {
    const leaves = event.key === "ArrowDown" || (event.key === "Enter" && !event.ctrlKey && !event.metaKey);
    if (event.isComposing || !leaves) return;
    event.preventDefault(); // Enter would send the form
    rows.find((row) => !row.hidden)?.querySelector("input, select, a")?.focus();
  });
  box.hidden = false;
  filter();
})();
