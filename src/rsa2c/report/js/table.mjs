// Tables that sort when a column header is clicked, and the same rows as CSV.

import { html } from "./dom.mjs";

/** Columns are {name, value(row), text?(row), link?(row)}; sorting changes only the order of the rows. */
export function sortableTable(columns, rows) {
  const body = html("tbody");
  const heads = columns.map((column, k) => {
    const button = html("button", { type: "button", class: "sort", onclick: () => sort(k) }, column.name);
    return html("th", { scope: "col", "aria-sort": "none" }, button);
  });
  let [sorted, direction] = [-1, 1];
  function sort(k) {
    direction = sorted === k ? -direction : 1;
    sorted = k;
    heads.forEach((head, i) =>
      head.setAttribute("aria-sort", i === k ? (direction > 0 ? "ascending" : "descending") : "none"),
    );
    fill([...rows].sort((a, b) => direction * compare(columns[k].value(a), columns[k].value(b))));
  }
  function fill(ordered) {
    body.replaceChildren(
      ...ordered.map((row) =>
        html(
          "tr",
          {},
          ...columns.map((column) => {
            const text = (column.text ?? ((one) => String(column.value(one) ?? "–")))(row);
            const link = column.link?.(row);
            return html("td", {}, link ? html("a", { href: link }, text) : text);
          }),
        ),
      ),
    );
  }
  fill(rows);
  return html("table", { class: "sortable" }, html("thead", {}, html("tr", {}, ...heads)), body);
}

/** Numbers by size, missing values last, text alphabetically. */
function compare(a, b) {
  if (a === null || a === undefined) return b === null || b === undefined ? 0 : 1;
  if (b === null || b === undefined) return -1;
  return typeof a === "number" && typeof b === "number" ? a - b : String(a).localeCompare(String(b));
}

export function csv(columns, rows) {
  const cell = (x) => {
    const text = x === null || x === undefined ? "" : String(x);
    return /[",\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
  };
  const lines = [columns.map((c) => cell(c.name)), ...rows.map((row) => columns.map((c) => cell(c.value(row))))];
  return lines.map((line) => line.join(",")).join("\n") + "\n";
}

export function download(name, text) {
  const url = URL.createObjectURL(new Blob([text], { type: "text/csv" }));
  html("a", { href: url, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(url), 1000);
}
