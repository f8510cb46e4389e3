// Forms and navigation: a busy sign, no second submit during a request, Ctrl+Enter for the next step, the focus after navigation and after a rejection,
// and a message if a request of the user fails. No logic here: every form works without this file.
(() => {
  "use strict";
  const BUSY_MS = 250; // before the busy sign of the page appears: shorter requests need none
  const ERROR_MS = 15_000; // time that the message about a failed request is shown
  const main = () => document.getElementById("main");

  // A request that the user caused: not the reload of panels or of the page by a live update.
  const byUser = (detail) => detail.elt?.id !== "panel-requests" && detail.elt !== document.body;

  const release = (form) => {
    delete form.dataset.sent;
    form.querySelectorAll("[aria-busy]").forEach((button) => button.removeAttribute("aria-busy"));
  };
  document.addEventListener("submit", (event) => {
    const form = event.target;
    if (form.method === "dialog" || form.getAttribute("method")?.toLowerCase() !== "post") return;
    if (form.dataset.sent) {
      event.preventDefault();
      event.stopImmediatePropagation();
      return;
    }
    form.dataset.sent = "1";
    const here = form.querySelector("[data-here]"); // navigation replaces #main only, and the form may be outside
    if (here) here.value = location.pathname + location.search;
    event.submitter?.setAttribute("aria-busy", "true");
  }, true);
  // A page from the browser's history, and a response that left the form in place.
  addEventListener("pageshow", () => document.querySelectorAll("form[data-sent]").forEach(release));
  document.addEventListener("htmx:afterRequest", ({ detail }) => {
    const form = detail.elt?.closest?.("form");
    if (form) release(form);
  });

  // Counted by request: if a link has been replaced by the response, htmx reports the end of its request at an element that is still there.
  let busyTimer = 0;
  const requests = new Set();
  const showBusy = () => {
    clearTimeout(busyTimer);
    if (requests.size) busyTimer = setTimeout(() => (document.documentElement.dataset.busy = "1"), BUSY_MS);
    else delete document.documentElement.dataset.busy;
  };
  document.addEventListener("htmx:beforeRequest", ({ detail }) => {
    if (!byUser(detail)) return;
    requests.add(detail.xhr);
    hideError();
    showBusy();
  });
  document.addEventListener("htmx:afterRequest", ({ detail }) => {
    if (requests.delete(detail.xhr)) showBusy();
  });

  // A choice, an order or a page that is opened replaces a search that was typed and not sent or not answered yet. A choice and an order keep its text:
  // their links were rendered before it was typed.
  const SEARCH = "form.filters input[type=search]";
  const superseded = new WeakSet();
  for (const kind of ["input", "search"]) document.addEventListener(kind, ({ target }) => superseded.delete(target), true);
  document.addEventListener("htmx:configRequest", (event) => {
    const { detail } = event;
    if (detail.elt.matches(SEARCH)) {
      if (superseded.has(detail.elt)) event.preventDefault();
      return;
    }
    if (!byUser(detail) || !["main", "list"].includes(detail.target?.id)) return;
    for (const field of document.querySelectorAll(SEARCH)) {
      superseded.add(field);
      htmx.trigger(field, "htmx:abort");
    }
    if (!detail.elt.matches("form.filters a, #list th a")) return;
    const field = (detail.elt.closest("form.filters") ?? document).querySelector(SEARCH);
    if (!field) return;
    const address = new URL(detail.path, location.href);
    if (field.value) address.searchParams.set(field.name, field.value);
    else address.searchParams.delete(field.name);
    detail.path = address.pathname + address.search;
  });

  // Failed requests.
  let errorTimer = 0;
  const hideError = () => document.getElementById("request-error").setAttribute("hidden", "");
  const showError = (text) => {
    const box = document.getElementById("request-error");
    box.textContent = text;
    box.hidden = false;
    clearTimeout(errorTimer);
    errorTimer = setTimeout(hideError, ERROR_MS);
  };
  const unsure = (detail) => detail.requestConfig?.verb !== "get";
  const failed = (cause) => ({ detail }) => {
    if (!byUser(detail)) return;
    showError(unsure(detail)
      ? `${cause} ${gettext("It is unknown whether the operation was carried out: look at the object or at the audit log before you try again.")}`
      : `${cause} ${gettext("Nothing was changed. Try again.")}`);
  };
  document.addEventListener("htmx:sendError", failed(gettext("The console does not respond.")));
  document.addEventListener("htmx:timeout", failed(gettext("The console did not respond in time.")));
  // An error page of a proxy has no #main: it would replace the page by nothing.
  document.addEventListener("htmx:beforeSwap", (event) => {
    const { xhr, target } = event.detail;
    if (target?.id !== "main" || xhr.status < 500 || xhr.responseText.includes('id="main"')) return;
    event.detail.shouldSwap = false;
    failed(interpolate(gettext("The console answered with an error (%(status)s)."), { status: xhr.status }, true))(event);
  });

  // Ctrl+Enter: the button of the form with the focus, and nothing if it is disabled. Without a form the page's next step, never a deletion.
  const enabled = (button) => button && !button.disabled && button.getAttribute("aria-disabled") !== "true";
  const nextStep = () => {
    const form = document.activeElement?.closest?.("#main form:not(.filters)");
    const own = form && ["button.primary", "button.sure", "button[type=submit]"].map((kind) => form.querySelector(kind)).find(Boolean);
    if (own) return enabled(own) ? own : null;
    return [...document.querySelectorAll("#main form button.primary, #main a.button.primary")].find(enabled);
  };
  document.addEventListener("keydown", (event) => {
    if (event.key !== "Enter" || !(event.ctrlKey || event.metaKey) || event.defaultPrevented || document.querySelector("dialog[open]")) return;
    const button = nextStep();
    if (!button) return;
    event.preventDefault();
    button.click();
  });

  // Focus. A rejected form: its first invalid field. Another page: its field with autofocus, else its heading.
  const announce = (text) => (document.getElementById("announcement").textContent = text);
  const INVALID = "[aria-invalid=true]:not([type=hidden])";
  const focusRejection = () => {
    const errors = [...main().querySelectorAll(".error")].filter((e) => e.checkVisibility());
    if (!errors.length) return false;
    const first = main().querySelector(INVALID);
    if (first) first.focus();
    else {
      errors[0].tabIndex = -1;
      errors[0].focus();
    }
    const count = interpolate(ngettext("%(count)s error.", "%(count)s errors.", errors.length), { count: errors.length }, true);
    announce(errors.length > 1 ? `${count} ${errors[0].textContent}` : errors[0].textContent);
    return true;
  };
  const focusPage = () => {
    const field = main().querySelector("[autofocus]"), heading = main().querySelector("h1");
    if (field) field.focus();
    else if (heading) {
      heading.tabIndex = -1;
      heading.focus({ preventScroll: true });
    }
    announce(document.title);
  };
  document.addEventListener("htmx:afterSettle", ({ target, detail }) => {
    if (target.id !== "main" || !byUser(detail) || focusRejection()) return;
    if (!target.contains(document.activeElement)) focusPage(); // htmx has focused the field with autofocus
  });
  document.addEventListener("DOMContentLoaded", () => {
    if (main()?.querySelector(".error")) focusRejection();
  });
})();
