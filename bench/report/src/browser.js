const every = (what, where = document) => Array.from(where.querySelectorAll(what));
const shown = (what) => every(what).filter((part) => part.getClientRects().length > 0);
const seen = { errors: window.errors, width: window.innerWidth };
const click = (part) => part.dispatchEvent(new MouseEvent("click", { bubbles: true }));

// Elements that stick out, and labels that overlap.
seen.page = document.documentElement.scrollWidth;
seen.overlaps = [];
for (const figure of shown("figure svg")) {
  const texts = every("text", figure).filter((text) => text.getClientRects().length > 0);
  const boxes = texts.map((text) => [text.textContent, text.getBoundingClientRect()]);
  const outer = figure.getBoundingClientRect();
  boxes.forEach(([name, a], at) => {
    if (a.left < outer.left - 1 || a.right > outer.right + 1) seen.overlaps.push(`${name} leaves its figure`);
    for (const [other, b] of boxes.slice(at + 1)) {
      const x = Math.min(a.right, b.right) - Math.max(a.left, b.left);
      const y = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
      if (x > 1 && y > 3) seen.overlaps.push(`${name} and ${other}`);
    }
  });
}
seen.letter = Math.min(...shown("figure svg text").map((text) => text.getBoundingClientRect().height));

// The scale.
seen.logarithmic = [shown("svg .log").length > 0, shown("svg .lin").length > 0];
click(document.querySelector("#scale"));
seen.linear = [shown("svg .log").length > 0, shown("svg .lin").length > 0];
click(document.querySelector("#scale"));

// A series that is dropped, and brought back.
const lines = () => shown("svg .s .l").length;
seen.lines = [lines()];
const name = shown("svg .s .n")[0];
click(name);
seen.lines.push(lines());
click(name);
seen.lines.push(lines());

// A table that is sorted up, and down.
const table = document.querySelector(".data");
const column = () => every("tbody tr", table).map((row) => row.cells[1].textContent);
click(table.querySelectorAll("th")[1]);
seen.up = column();
click(table.querySelectorAll("th")[1]);
seen.down = column();

// The filter.
const filter = document.querySelector("#filter");
filter.value = "ticket";
filter.dispatchEvent(new Event("input"));
seen.filtered = [shown(".data tbody tr").map((row) => row.dataset.name), lines()];
filter.value = "";
filter.dispatchEvent(new Event("input"));
seen.unfiltered = [shown(".data tbody tr").length, lines()];

// The value under the pointer.
const mark = shown("svg .m")[0];
const box = mark.getBoundingClientRect();
const at = { clientX: box.left + box.width / 2, clientY: box.top + box.height / 2, bubbles: true };
mark.closest("svg").dispatchEvent(new PointerEvent("pointermove", at));
seen.tip = document.querySelector("#tip").textContent;

// The values as a file: what the page would save is kept, and read at the end.
let file = null;
const create = URL.createObjectURL;
URL.createObjectURL = (blob) => {
  file = blob;
  return create.call(URL, blob);
};
HTMLAnchorElement.prototype.click = () => {};
click(shown(".take")[0]);

const write = (text) => {
  seen.file = text;
  document.body.innerHTML = "<pre>" + encodeURIComponent(JSON.stringify(seen)) + "</pre>";
};
if (file) file.text().then(write); else write("");
