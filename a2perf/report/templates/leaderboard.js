"use strict";
// Sorts, filters and extends the tables of the page, and keeps the view in its address. Nothing is fetched.
(() => {
  const data = document.getElementById("more");
  const more = data ? JSON.parse(data.textContent) : { columns: [], rows: {} };
  const columns = new Map(more.columns.map((column) => [column.key, column]));
  const tools = document.getElementById("tools");
  const status = document.getElementById("status");
  const find = document.getElementById("find");
  const kind = document.getElementById("kind");
  const add = document.getElementById("add");
  const tables = [...document.querySelectorAll("table.ranking[id]")];
  const directions = { ascending: "lowest first", descending: "highest first" };
  const view = { sort: "", metrics: [] };

  const headOf = (table, key) => [...table.tHead.rows[0].cells].find((head) => head.dataset.key === key);

  const valueOf = (cell, type) => {
    if (!cell || cell.dataset.v === undefined) return null;
    return type === "text" ? cell.dataset.v : Number(cell.dataset.v);
  };

  // A view that is linked to must open as it was seen, so the address follows every change.
  const remember = () => {
    const query = new URLSearchParams();
    if (find.value) query.set("find", find.value);
    if (kind && kind.value) query.set("kind", kind.value);
    if (view.metrics.length) query.set("metrics", view.metrics.join(","));
    if (view.sort) query.set("sort", view.sort);
    const text = query.toString();
    try { history.replaceState(null, "", `${location.pathname}${text ? `?${text}` : ""}${location.hash}`); } catch { /* not allowed here */ }
  };

  // Missing values come last in both directions; equal values keep the order of the score.
  const sort = (table, key, direction) => {
    const heads = [...table.tHead.rows[0].cells];
    const place = heads.findIndex((head) => head.dataset.key === key);
    if (place < 0) return;
    const type = heads[place].dataset.kind;
    const sign = direction === "ascending" ? 1 : -1;
    const rows = [...table.tBodies[0].rows].map((row) => [valueOf(row.cells[place], type), Number(row.dataset.at), row]);
    rows.sort(([a, i], [b, j]) => {
      if (a === null || b === null) return (a === null) - (b === null) || i - j;
      const order = type === "text" ? a.localeCompare(b, "en") : a - b;
      return sign * order || i - j;
    });
    table.tBodies[0].append(...rows.map(([, , row]) => row));
    for (const head of heads) if (head.hasAttribute("aria-sort")) head.setAttribute("aria-sort", "none");
    heads[place].setAttribute("aria-sort", direction);
  };

  const sorted = (table, key, direction) => {
    sort(table, key, direction);
    view.sort = `${tables.indexOf(table)}:${key}:${direction}`;
    status.textContent = `Sorted by ${headOf(table, key).textContent.trim()}, ${directions[direction]}.`;
    remember();
  };

  const listen = (head, table) => {
    const button = head.querySelector("button");
    button.disabled = false;
    button.addEventListener("click", () => {
      const other = { ascending: "descending", descending: "ascending" };
      sorted(table, head.dataset.key, other[head.getAttribute("aria-sort")] || head.dataset.first);
    });
  };

  const addColumn = (table, column) => {
    const head = document.createElement("th");
    Object.assign(head.dataset, { key: column.key, kind: "number", first: column.direction === "min" ? "ascending" : "descending" });
    head.scope = "col";
    head.className = "right";
    head.setAttribute("aria-sort", "none");
    const button = document.createElement("button");
    button.type = "button";
    button.title = column.formula;
    button.textContent = column.title;
    head.append(button);
    const after = (headOf(table, "score") || headOf(table, "submission")).cellIndex + 1;
    table.tHead.rows[0].insertBefore(head, table.tHead.rows[0].cells[after]);
    for (const row of table.tBodies[0].rows) {
      const found = (more.rows[row.id] || {})[column.key];
      const cell = row.insertCell(after);
      cell.className = found ? "right" : "right empty";
      cell.dataset.label = column.title;
      cell.textContent = found ? found[1] : "–";
      if (found) cell.dataset.v = String(found[0]);
    }
    listen(head, table);
  };

  const show = (key) => {
    if (!columns.has(key) || view.metrics.includes(key)) return;
    for (const table of tables) addColumn(table, columns.get(key));
    view.metrics.push(key);
  };

  const filter = () => {
    const text = find.value.trim().toLowerCase();
    let shown = 0, all = 0;
    for (const table of tables) {
      for (const row of table.tBodies[0].rows) {
        const who = row.querySelector("th");
        row.hidden = !who.textContent.toLowerCase().includes(text) || Boolean(kind && kind.value && row.dataset.kind !== kind.value);
        shown += row.hidden ? 0 : 1;
        all += 1;
      }
    }
    status.textContent = shown < all ? `${shown} of ${all} rows shown.` : "";
  };

  for (const table of tables) {
    [...table.tBodies[0].rows].forEach((row, at) => { row.dataset.at = String(at); });
    for (const head of table.tHead.rows[0].cells) if (head.dataset.key) listen(head, table);
  }
  const given = new URLSearchParams(location.search);
  find.value = given.get("find") || "";
  if (kind) kind.value = [...kind.options].some((option) => option.value === given.get("kind")) ? given.get("kind") : "";
  for (const key of (given.get("metrics") || "").split(",")) show(key);
  const [place, key, direction] = (given.get("sort") || "").split(":");
  if (tables[place] && directions[direction] && headOf(tables[place], key)) sorted(tables[place], key, direction);
  for (const input of [find, kind]) {
    if (input) input.addEventListener("input", () => { filter(); remember(); });
  }
  if (add) {
    add.value = "";
    add.addEventListener("change", () => {
      if (!columns.has(add.value)) return;
      show(add.value);
      for (const table of tables) sort(table, add.value, headOf(table, add.value).dataset.first);
      sorted(tables[0], add.value, headOf(tables[0], add.value).dataset.first);
      add.value = "";
    });
  }
  tools.addEventListener("submit", (event) => event.preventDefault());
  tools.hidden = tables.length === 0;
  if (find.value || (kind && kind.value)) filter();
})();
