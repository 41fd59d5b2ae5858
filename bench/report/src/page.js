"use strict";
(() => {
  const all = (what, where = document) => Array.from(where.querySelectorAll(what));
  const one = (what) => document.querySelector(what);
  for (const part of all("[hidden]")) if (part.id !== "tip") part.hidden = false;

  // A click on a series' name drops the series, or brings it back.
  for (const name of all("svg .n")) {
    name.addEventListener("click", () => {
      const figure = name.closest("svg");
      const wanted = name.parentNode.dataset.name;
      for (const series of all(".s", figure)) if (series.dataset.name === wanted) series.classList.toggle("off");
    });
  }

  // The filter keeps the series and rows whose names have one of its words.
  const filter = one("#filter");
  if (filter) {
    filter.addEventListener("input", () => {
      const words = filter.value.toLowerCase().split(/[,\s]+/).filter(Boolean);
      const kept = (name) => words.length === 0 || words.some((word) => name.toLowerCase().includes(word));
      for (const series of all("svg .s[data-name]")) series.classList.toggle("off", !kept(series.dataset.name));
      for (const row of all(".data tbody tr")) row.classList.toggle("gone", !kept(row.dataset.name));
    });
  }

  const scale = one("#scale");
  if (scale) {
    scale.addEventListener("click", () => {
      const linear = document.body.classList.toggle("linear");
      scale.setAttribute("aria-pressed", String(linear));
      scale.textContent = linear ? "logarithmic scales" : "linear scales";
    });
  }

  // The value of the mark that is nearest to the pointer.
  const tip = one("#tip");
  for (const figure of all("figure svg")) {
    figure.addEventListener("pointermove", (event) => {
      let nearest = null;
      let least = 30;
      for (const mark of all(".m, .b", figure)) {
        const box = mark.getBoundingClientRect();
        if (box.width === 0 || !mark.querySelector("title")) continue;
        const dx = Math.max(box.left - event.clientX, 0, event.clientX - box.right);
        const dy = Math.max(box.top - event.clientY, 0, event.clientY - box.bottom);
        const far = Math.hypot(dx, dy);
        if (far < least) [least, nearest] = [far, mark];
      }
      tip.hidden = !nearest;
      if (!nearest) return;
      tip.textContent = nearest.querySelector("title").textContent;
      const room = document.documentElement.clientWidth - tip.offsetWidth - 6;
      tip.style.left = Math.max(4, Math.min(event.clientX + 12, room)) + "px";
      tip.style.top = event.clientY + 16 + "px";
    });
    figure.addEventListener("pointerleave", () => { tip.hidden = true; });
  }

  // A click on a column's name sorts by it: first up, then down.
  for (const table of all(".data")) {
    table.classList.add("sorts");
    all("th", table).forEach((head, column) => {
      head.tabIndex = 0;
      const sort = () => {
        const down = head.getAttribute("aria-sort") === "ascending";
        for (const other of all("th", table)) other.removeAttribute("aria-sort");
        head.setAttribute("aria-sort", down ? "descending" : "ascending");
        const body = table.tBodies[0];
        const key = (row) => row.cells[column].dataset.v;
        const rows = Array.from(body.rows).sort((a, b) => {
          const [x, y] = [key(a), key(b)];
          if (x !== undefined && y !== undefined) return (Number(x) - Number(y)) * (down ? -1 : 1);
          if (x !== undefined || y !== undefined) return x === undefined ? 1 : -1;
          return a.cells[column].textContent.localeCompare(b.cells[column].textContent) * (down ? -1 : 1);
        });
        for (const row of rows) body.append(row);
      };
      head.addEventListener("click", sort);
      head.addEventListener("keydown", (event) => { if (event.key === "Enter") sort(); });
    });
  }

  // The values of a figure as a file.
  const quoted = (text) => '"' + String(text).replaceAll('"', '""') + '"';
  for (const figure of all("figure")) {
    const button = figure.querySelector(".take");
    if (!button) continue;
    button.addEventListener("click", () => {
      const lines = [["series", figure.dataset.x, figure.dataset.y].map(quoted).join(",")];
      for (const mark of all(".log .s:not(.off) .m, .all .s:not(.off) .m", figure)) {
        lines.push([quoted(mark.parentNode.dataset.name), mark.dataset.x, mark.dataset.y].join(","));
      }
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([lines.join("\n") + "\n"], { type: "text/csv" }));
      link.download = (figure.id || "figure") + ".csv";
      link.click();
      URL.revokeObjectURL(link.href);
    });
  }
})();
