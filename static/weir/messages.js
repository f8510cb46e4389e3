// The Messages page: copies a record to the clipboard.
(() => {
  "use strict";
  const weir = (window.weir ??= {});
  const COPIED_MS = 1500; // time that the button shows the result
  if (weir.records) return; // the page was opened before: the listener is that of the document
  weir.records = true;

  // The Clipboard API needs HTTPS or localhost; the selection works everywhere.
  const copySelection = (text) => {
    const area = document.body.appendChild(document.createElement("textarea"));
    area.value = text;
    area.select();
    const done = document.execCommand("copy");
    area.remove();
    return done;
  };
  const copy = async (text) => {
    try {
      await navigator.clipboard.writeText(text);
      return true;
    } catch {
      return copySelection(text);
    }
  };

  document.addEventListener("click", async (event) => {
    const button = event.target.closest("[data-copy]");
    if (!button) return;
    const done = await copy(button.nextElementSibling.textContent);
    button.textContent = done ? gettext("Copied") : gettext("Not copied");
    setTimeout(() => (button.textContent = gettext("Copy")), COPIED_MS);
  });
})();
