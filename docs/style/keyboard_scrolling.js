/* Tables, code and outputs that scroll sideways can be reached and scrolled with the keyboard. */
const scrollers = document.querySelectorAll(
  ".table-wrapper, .highlight pre, article div.toctree-wrapper, article div.output, article div.output div",
);
const update = () => {
  for (const element of scrollers) {
    if (element.scrollWidth > element.clientWidth) element.tabIndex = 0;
    else element.removeAttribute("tabindex");
  }
};
update();
addEventListener("resize", update);
document.fonts.ready.then(update);
