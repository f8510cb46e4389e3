// The Produce page: fields that only one choice of another field needs (data-when="name=value"). Without this script they are shown.
(() => {
  const form = document.querySelector("#main form[data-editing]");
  const showNeeded = () => {
    for (const input of form.querySelectorAll("[data-when]")) {
      const [name, value] = input.dataset.when.split("="), row = input.closest(".field");
      row.hidden = form.elements[name].value !== value && !row.querySelector(".error");
      row.previousElementSibling.hidden = row.hidden;
    }
  };
  form.addEventListener("change", showNeeded);
  showNeeded();
})();
