"use strict";
// A page that shows one website after the other. reset() and act() are the only calls that come from outside. Both
// return how things stand, which elements are listed, and the rows of those that differ from the answer before.
let nodes = [], gold = {}, clicked = new Set(), end = 0, sent = new Map(), order = "";
const RUNNING = 0, LINK = 1, SOLVED = 2, WRONG = 3;

// clicks on links do not count as clicks on elements, because links leave the page
document.addEventListener("click", (event) => { if (event.target.tagName !== "A") clicked.add(event.target); }, true);
document.addEventListener("submit", (event) => event.preventDefault(), true);

function reset(style, inside, profile, texts) {
  clicked = new Set();
  sent = new Map();
  order = "";
  end = RUNNING;
  gold = profile;
  const body = document.body;
  body.setAttribute("style", style);
  body.dataset.n = "0";
  body.innerHTML = inside;
  nodes = [body, ...body.querySelectorAll("[data-n]")];
  for (const element of body.querySelectorAll("[data-slot]")) element.textContent = texts[element.dataset.slot];
  return outcome();
}

function act(n, value) {
  const element = nodes[n], role = element.dataset.role;
  if (role !== undefined) {
    visit(element);
    ACTIONS[role](element, value);
  }
  return outcome();
}

const visit = (element) => element.classList.add("visited");
const pageOf = (element) => element.closest(".core");
const onPage = (element, selector) => [...pageOf(element).querySelectorAll(selector)];
const groupOf = (radio) => onPage(radio, `input[type=radio][data-field="${radio.dataset.field}"]`);

const ACTIONS = {
  click(element) { element.click(); },
  text(element, value) {
    element.dispatchEvent(new KeyboardEvent("keypress", { bubbles: true }));
    element.value = value === null ? "" : String(value);
  },
  select(element, value) { element.value = String(value); },
  check(element, value) { if (value === true || value === "1") element.click(); },
  radio(element, value) {
    const group = groupOf(element);
    group.forEach(visit);
    group.find((radio) => radio.value === value)?.click();
  },
  label(element) {
    element.click();
    const control = element.dataset.control && onPage(element, `[id="${element.dataset.control}"]`)[0];
    if (!control) return;
    control.click();
    control.focus({ preventScroll: true });
  },
  toggle(element) {
    element.click();
    const menu = nodes[Number(element.dataset.target)];
    menu.style.display = menu.classList.toggle("show") ? "block" : "none";
  },
  next(element) {
    element.click();
    if (!works(element)) return;
    pageOf(element).style.display = "none";
    document.getElementById(`page${element.dataset.target}`).style.display = "block";
  },
  submit(element) {
    element.click();
    if (works(element)) end = Object.keys(gold).every((field) => equals(field, false)) ? SOLVED : WRONG;
  },
  end(element) {
    element.click();
    end = LINK;
  },
};

function works(button) {
  return button.dataset.target !== undefined &&
    JSON.parse(button.dataset.needs || "[]").every((id) => document.querySelector(`[id="${id}"].visited`));
}

// whether some control of a field has the gold value, of all or of the visited ones
function equals(field, visitedOnly) {
  return [...document.querySelectorAll(`[data-field="${field}"]`)].some((control) =>
    (!visitedOnly || control.classList.contains("visited")) &&
    (control.type === "checkbox" ? control.checked : control.type !== "radio" || control.checked ? control.value : null)
      === gold[field]);
}

// [end, matched, numbers of the listed elements or null if unchanged, changed rows], as JSON
function outcome() {
  const listed = [], changed = [];
  list(document.body, document.activeElement, listed, changed);
  const matched = Object.keys(gold).filter((field) => equals(field, true)).length;
  const before = order;
  order = listed.join();
  return `[${end},${matched},${order === before ? "null" : `[${order}]`},[${changed.join()}]]`;
}

// elements with a box of some size, in document order; what is in an element without one is not listed
function list(element, active, listed, changed) {
  const box = element.getBoundingClientRect();
  if (!(box.width > 0 && box.height > 0)) return;
  const n = Number(element.dataset.n), tag = element.localName, input = tag === "input";
  const choice = element.type === "checkbox" || element.type === "radio";
  const row = JSON.stringify([
    n,
    input ? `input_${element.type}` : tag,
    choice ? element.checked : input || tag === "select" ? element.value : null,
    element.firstElementChild === null ? element.textContent.trim() : null,
    input && element.placeholder !== "" ? element.placeholder : null,
    element.className,
    element.id,
    element === active && element !== document.body,
    clicked.has(element),
    box.left + scrollX, box.top + scrollY, box.width, box.height,
  ]);
  listed.push(n);
  if (sent.get(n) !== row) {
    sent.set(n, row);
    changed.push(row);
  }
  if (tag === "select") return;
  for (let child = element.firstElementChild; child !== null; child = child.nextElementSibling) {
    list(child, active, listed, changed);
  }
}

document.fonts.load("16px Pages").then(
  (found) => opener?.ready(name, found.length === 1 ? null : "its font is missing"),
  (error) => opener?.ready(name, String(error)),
);
