// Texts of the scripts. In English the page loads no catalogue, so a text is its own translation. The functions are those of Django's JavaScript catalogue.
(() => {
  "use strict";
  window.gettext ??= (text) => text;
  window.ngettext ??= (one, many, count) => (count === 1 ? one : many);
  window.interpolate ??= (text, values) => text.replace(/%\((\w+)\)s/g, (_, name) => values[name]);
})();
