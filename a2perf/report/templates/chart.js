"use strict";
// Lets the reader hide series, read values, change the scale and save a chart. The drawing itself is an SVG of
// matplotlib; ids of a series' artists begin with the prefix of the view and the key of the series.
(() => {
  const SVG = "http://www.w3.org/2000/svg";
  const TIMES = [[7200, 3600, "h"], [120, 60, "min"], [1, 1, "s"], [1e-3, 1e-3, "ms"], [1e-6, 1e-6, "µs"], [0, 1e-9, "ns"]];
  const formatted = (number, unit) => {
    let value = number, name = unit;
    if (unit === "s" && number !== 0) {
      const [, factor, shown] = TIMES.find(([least]) => Math.abs(number) >= least);
      [value, name] = [number / factor, shown];
    }
    const plain = Math.abs(value) >= 1e5 || (value !== 0 && Math.abs(value) < 1e-3)
      ? value.toExponential(2) : String(Number(value.toPrecision(4)));
    return name ? `${plain} ${name}` : plain;
  };
  const along = (value, [low, high, scale]) =>
    scale === "log" ? Math.log(value / low) / Math.log(high / low) : (value - low) / (high - low);

  class Chart {
    constructor(figure) {
      this.figure = figure;
      this.data = JSON.parse(figure.querySelector("script.data").textContent);
      this.views = [...figure.querySelectorAll(".view")];
      this.plot = figure.querySelector(".plot");
      this.readout = figure.querySelector(".readout");
      this.view = 0;
      this.hidden = new Set();
      this.at = null;
      this.views.forEach((view, index) => this.prepare(view.querySelector("svg"), this.data.views[index]));
      figure.querySelector(".controls").hidden = false;
      figure.querySelector(".help").hidden = false;
      for (const box of figure.querySelectorAll("input[data-series]")) {
        box.checked = true;
        box.addEventListener("change", () => this.show(box.dataset.series, box.checked));
      }
      this.plot.tabIndex = 0;
      this.plot.addEventListener("pointermove", (event) => this.point(event));
      this.plot.addEventListener("pointerleave", () => this.read(null));
      this.plot.addEventListener("keydown", (event) => this.key(event));
      this.plot.addEventListener("blur", () => this.read(null));
    }

    prepare(svg, frame) {
      // the page draws its own legend, with a checkbox per series
      const [width, height] = frame.size;
      svg.setAttribute("viewBox", `0 0 ${width} ${height - frame.legend}`);
      const legend = frame.legend ? svg.querySelector("[id$='-legend']") : null;
      if (legend) legend.style.display = "none";
      const mark = document.createElementNS(SVG, "circle");
      mark.setAttribute("r", "3.6");
      mark.setAttribute("class", "here");
      mark.style.display = "none";
      svg.append(mark);
    }

    shown() {
      return this.data.series.filter((s) => s.points.length && !this.hidden.has(s.key) && !this.hidden.has(s.parent));
    }

    show(key, visible) {
      if (visible) this.hidden.delete(key); else this.hidden.add(key);
      this.views.forEach((view, index) => {
        for (const series of this.data.series) {
          const off = this.hidden.has(series.key) || this.hidden.has(series.parent);
          const start = `${this.figure.dataset.prefix}v${index}-${series.key}`;
          for (const artist of view.querySelectorAll(`[id^="${start}"]`)) {
            const member = /-r\d+-/.test(artist.id.slice(start.length - series.key.length - 1));
            if (member === Boolean(series.parent)) artist.style.display = off ? "none" : "";
          }
        }
      });
      this.read(null);
    }

    place(point) {
      const frame = this.data.views[this.view], [left, top, width, height] = frame.box;
      return [left + width * along(point[0], frame.x), top + height * (1 - along(point[1], frame.y))];
    }

    point(event) {
      const svg = this.views[this.view].querySelector("svg"), box = svg.getBoundingClientRect();
      const scale = svg.viewBox.baseVal.width / box.width;
      const x = (event.clientX - box.left) * scale, y = (event.clientY - box.top) * scale;
      let best = null, least = 48 * 48;
      for (const series of this.shown()) {
        series.points.forEach((point, index) => {
          const [px, py] = this.place(point), distance = (px - x) ** 2 + (py - y) ** 2;
          if (distance < least) [best, least] = [[series, index], distance];
        });
      }
      this.read(best);
    }

    key(event) {
      const steps = {ArrowRight: [0, 1], ArrowLeft: [0, -1], ArrowUp: [-1, 0], ArrowDown: [1, 0]}[event.key];
      if (event.key === "Escape") return this.read(null);
      if (!steps) return;
      event.preventDefault();
      const shown = this.shown();
      if (!shown.length) return;
      let row = this.at ? shown.indexOf(this.at[0]) : 0, index = this.at ? this.at[1] : -1;
      row = (Math.max(row, 0) + steps[0] + shown.length) % shown.length;
      index = Math.min(Math.max(index + steps[1], 0), shown[row].points.length - 1);
      this.read([shown[row], index]);
    }

    read(at) {
      this.at = at;
      const mark = this.views[this.view].querySelector(".here");
      mark.style.display = at ? "" : "none";
      if (!at) {
        this.readout.textContent = "";
        return;
      }
      const point = at[0].points[at[1]], [x, y] = this.place(point);
      mark.setAttribute("cx", x);
      mark.setAttribute("cy", y);
      const [xName, xUnit, yName, yUnit] = this.data.views[this.view].names;
      const parts = [`${xName} ${formatted(point[0], xUnit)}`];
      if (yName) parts.push(`${yName} ${formatted(point[1], yUnit)}`);
      if (point.length > 2) parts.push(`interval ${formatted(point[2], "")} to ${formatted(point[3], "")}`);
      this.readout.textContent = `${at[0].label}: ${parts.join(", ")}`;
    }

    turn() {
      this.read(null);
      this.view = (this.view + 1) % this.views.length;
      this.views.forEach((view, index) => { view.hidden = index !== this.view; });
      return this.view > 0;
    }
  }

  // a complete SVG document: the CSS variables of the page's theme replaced by their values
  const standalone = (figure) => {
    const svg = figure.querySelector(".view:not([hidden]) svg").cloneNode(true);
    for (const mark of svg.querySelectorAll(".here")) mark.remove();
    svg.setAttribute("xmlns", SVG);
    const style = getComputedStyle(document.documentElement);
    return svg.outerHTML.replace(/var\((--[a-z]+)\)/g, (_, name) => style.getPropertyValue(name).trim().replace(/"/g, "'"));
  };
  const report = (figure, text) => { figure.querySelector(".status").textContent = text; };
  const save = (figure, button) => {
    const link = document.createElement("a");
    link.href = URL.createObjectURL(new Blob([standalone(figure)], {type: "image/svg+xml"}));
    link.download = button.dataset.name;
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
    report(figure, "saved");
  };
  const copy = async (figure) => {
    try {
      await navigator.clipboard.writeText(standalone(figure));
      report(figure, "copied");
    } catch {
      report(figure, "copying is blocked by this browser; use “Save as SVG”");
    }
  };

  for (const figure of document.querySelectorAll("figure.chart")) {
    const chart = figure.querySelector("script.data") ? new Chart(figure) : null;
    for (const button of figure.querySelectorAll("button[data-do]")) {
      button.hidden = false;
      button.addEventListener("click", () => {
        if (button.dataset.do === "scale") button.setAttribute("aria-pressed", String(chart.turn()));
        if (button.dataset.do === "save") save(figure, button);
        if (button.dataset.do === "copy") copy(figure);
      });
    }
  }

  // a link to something inside closed details opens them
  const reveal = () => {
    const target = location.hash.length > 1 && document.getElementById(decodeURIComponent(location.hash.slice(1)));
    if (!target) return;
    let closed = false;
    for (let part = target; part; part = part.parentElement) {
      if (part.tagName === "DETAILS" && !part.open) closed = part.open = true;
    }
    if (closed) target.scrollIntoView();
  };
  addEventListener("hashchange", reveal);
  reveal();
})();
