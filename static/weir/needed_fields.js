// Fields that only some choices of another field need (data-when="name=value|value"). Without this script they are shown.
(() => {
  const form = document.querySelector("#main form[data-editing]");
  const showNeeded = () => {
    for (const input of form.querySelectorAll("[data-when]")) {
      const [name, values] = input.dataset.when.split("="), row = input.closest(".field");
      row.hidden = !values.split("|").includes(form.elements[name].value) && !row.querySelector(".error");
      row.previousElementSibling.hidden = row.hidden;
    }
  };
  form.addEventListener("change", showNeeded);
  showNeeded();
})();
