"use strict";
// Sorts and filters the tables of the page. Everything it needs is in the page; nothing is fetched.
(() => {
  const more = JSON.parse(document.getElementById("more").textContent);
  const tools = document.getElementById("tools");
  const said = document.getElementById("said");
  const by = document.getElementById("sort-by");
  const turn = document.getElementById("turn");
  const boards = [...document.querySelectorAll("section.board")];
  const tables = boards.map((board) => board.querySelector("table.ranking"));
  const added = new Map(more.columns.map((column) => [column.key, column]));
  const words = { ascending: "lowest first", descending: "highest first" };

  const valueOf = (cell, kind) => {
    if (!cell || cell.dataset.v === undefined) return null;
    return kind === "text" ? cell.dataset.v : Number(cell.dataset.v);
  };

  // None goes last whichever way the column is sorted; equal values keep the order of the score.
  const sort = (table, key, direction) => {
    const heads = [...table.tHead.rows[0].cells];
    const place = heads.findIndex((head) => head.dataset.key === key);
    if (place < 0) return;
    const kind = heads[place].dataset.kind;
    const sign = direction === "ascending" ? 1 : -1;
    const rows = [...table.tBodies[0].rows].map((row) => [valueOf(row.cells[place], kind), Number(row.dataset.at), row]);
    rows.sort(([a, i], [b, j]) => {
      if (a === null || b === null) return (a === null) - (b === null) || i - j;
      const order = kind === "text" ? a.localeCompare(b, "en") : a - b;
      return sign * order || i - j;
    });
    table.tBodies[0].append(...rows.map(([, , row]) => row));
    for (const head of heads) if (head.hasAttribute("aria-sort")) head.setAttribute("aria-sort", "none");
    heads[place].setAttribute("aria-sort", direction);
  };

  const say = (text) => { said.textContent = text; };

  const headOf = (table, key) => [...table.tHead.rows[0].cells].find((head) => head.dataset.key === key);

  const listen = (head, table) => {
    const button = head.querySelector("button");
    button.disabled = false;
    button.addEventListener("click", () => {
      const now = head.getAttribute("aria-sort");
      const other = { ascending: "descending", descending: "ascending" };
      const direction = other[now] || head.dataset.first;
      sort(table, head.dataset.key, direction);
      say(`Sorted by ${button.textContent}, ${words[direction]}.`);
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
    const after = headOf(table, "score").cellIndex + 1;
    table.tHead.rows[0].insertBefore(head, table.tHead.rows[0].cells[after]);
    for (const row of table.tBodies[0].rows) {
      const found = (more.rows[row.id] || {})[column.key];
      const cell = row.insertCell(after);
      cell.className = "right";
      cell.dataset.label = column.title;
      cell.textContent = found ? found[1] : "–";
      if (found) cell.dataset.v = String(found[0]);
    }
    listen(head, table);
  };

  const sortAll = (direction) => {
    const key = by.value;
    for (const table of tables) {
      // tables over all tasks hold scores only
      if (table.closest(".overall") && !headOf(table, key)) continue;
      if (!headOf(table, key)) addColumn(table, added.get(key));
      sort(table, key, direction || headOf(table, key).dataset.first);
    }
    const head = tables.map((table) => headOf(table, key)).find((found) => found);
    const first = head ? head.getAttribute("aria-sort") : "";
    turn.dataset.now = first;
    const best = head && head.dataset.first === first;
    turn.textContent = best ? "Best first" : "Worst first";
    say(`Every table sorted by ${by.selectedOptions[0].textContent}, ${words[first] || ""}.`);
  };

  const filter = () => {
    const wanted = [...tools.querySelectorAll("select[data-filter]")].filter((select) => select.value);
    let shown = 0;
    for (const board of boards) {
      board.hidden = !wanted.every((select) => board.dataset[select.dataset.filter] === select.value);
      shown += board.hidden ? 0 : 1;
      const link = document.querySelector(`.contents li[data-for="${board.id}"]`);
      if (link) link.hidden = board.hidden;
    }
    say(`${shown} of ${boards.length} table${boards.length === 1 ? "" : "s"} shown.`);
  };

  for (const table of tables) {
    [...table.tBodies[0].rows].forEach((row, at) => { row.dataset.at = String(at); });
    for (const head of table.tHead.rows[0].cells) if (head.dataset.key) listen(head, table);
  }
  for (const select of tools.querySelectorAll("select[data-filter]")) {
    select.value = "";
    select.addEventListener("change", filter);
  }
  by.value = "score";
  by.addEventListener("change", () => sortAll());
  turn.addEventListener("click", () => sortAll(turn.dataset.now === "ascending" ? "descending" : "ascending"));
  turn.dataset.now = "descending";
  tools.hidden = boards.length === 0;
})();
