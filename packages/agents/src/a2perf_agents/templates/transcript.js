// Filters the exchanges of a transcript by a text; without the script every exchange is shown.
(() => {
  for (const box of document.querySelectorAll(".transcript input[data-do=search]")) {
    const whole = box.closest(".transcript");
    const steps = [...whole.querySelectorAll(".exchange")].map((step) => [step, step.textContent.toLowerCase()]);
    const found = whole.querySelector(".found");
    box.closest(".transcript-search").hidden = false;
    box.addEventListener("input", () => {
      const wanted = box.value.trim().toLowerCase();
      let count = 0;
      for (const [step, text] of steps) {
        const fits = text.includes(wanted);
        step.hidden = !fits;
        step.open = wanted !== "" && fits;
        count += fits ? 1 : 0;
      }
      for (const episode of whole.querySelectorAll(".episode")) {
        const fits = episode.querySelector(".exchange:not([hidden])") !== null;
        episode.hidden = wanted !== "" && !fits;
        if (wanted !== "" && fits) episode.open = true;
      }
      found.textContent = wanted === "" ? "" : `${count} of ${steps.length} calls`;
    });
  }
})();
