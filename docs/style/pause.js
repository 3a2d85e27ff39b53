/* Moving pictures can be paused (WCAG 2.2.2), and are at first if the reader prefers reduced motion. */
const moving = [...document.querySelectorAll('article img[src$=".webp"]')];
const button = document.createElement("button");
let paused = false;

const still = (image) => {
  const frame = document.createElement("canvas"); // shows the first frame
  frame.width = image.naturalWidth;
  frame.height = image.naturalHeight;
  frame.className = "still";
  if (image.alt) {
    frame.setAttribute("role", "img");
    frame.setAttribute("aria-label", image.alt);
  } else frame.setAttribute("aria-hidden", "true"); // decoration, as the picture was
  frame.getContext("2d").drawImage(image, 0, 0);
  return frame;
};

const turn = () => {
  paused = !paused;
  for (const image of moving) {
    if (paused) image.after(still(image));
    else image.parentElement.querySelector("canvas.still").remove();
    image.hidden = paused;
  }
  button.textContent = paused ? "Play pictures" : "Pause pictures";
};

if (moving.length) {
  button.type = "button";
  button.className = "pause";
  button.textContent = "Pause pictures";
  button.addEventListener("click", turn);
  const first = moving[0];
  (first.closest(".gallery, .strip") ?? first.closest("figure, p")).before(button);
  const reduced = matchMedia("(prefers-reduced-motion: reduce)").matches;
  if (reduced) Promise.all(moving.map((image) => image.decode().catch(() => {}))).then(turn);
}
