// Every number of the scenario in a dialog: value, label, source, range and cases, all to be edited.
const COLUMNS = ["value", "label", "source", "low", "high", "best", "worst"];

function allNumbers() {
  const dialog = el("dialog", "sv-all");
  dialog.setAttribute("aria-label", v.says.all_numbers);
  const head = el("div", "sv-all-head");
  const close = el("button", "sv-button", v.says.close);
  close.type = "button";
  close.addEventListener("click", () => dialog.close());
  const told = el("div");
  told.append(el("h3", "", v.says.all_numbers), el("p", "sv-quiet", v.says.all_numbers_info));
  head.append(told, close);
  const grid = el("div", "sv-all-grid");
  grid.setAttribute("role", "table");
  const top = el("div", "sv-all-row sv-all-top");
  top.setAttribute("role", "row");
  for (const name of ["", ...COLUMNS]) {
    const cell = el("span", "", name ? v.says["col_" + name] : "");
    cell.setAttribute("role", "columnheader");
    top.append(cell);
  }
  grid.append(top);
  for (const group of v.table) {
    grid.append(el("h4", "", visible(group.title, false)));
    for (const one of group.rows) grid.append(tableRow(one));
  }
  dialog.append(head, grid);
  root.append(dialog);
  for (const group of v.table) for (const one of group.rows) fill(rows.get(one.path), one.cells, true);
  keepTyped();
  return dialog;
}

function tableRow(one) {
  const row = rowOf(one.path, one.cells);
  // A driver's own cells are fewer: to undo an edit, all of them are needed.
  row.first = one.cells;
  const line = el("div", "sv-all-row");
  line.setAttribute("role", "row");
  line.dataset.path = one.path;
  const name = el("div", "sv-all-name");
  name.setAttribute("role", "rowheader");
  name.append(el("span", "", one.label), el("span", "sv-unit", one.unit), resetButton(row, one.label), el("code", "", one.path));
  line.append(name);
  for (const field of COLUMNS) {
    const cell = el("div", "sv-all-cell sv-all-" + field);
    cell.setAttribute("role", "cell");
    cell.append(el("span", "sv-all-head-narrow", v.says["col_" + field]));
    const label = one.label + ": " + v.says["col_" + field];
    cell.append(field === "label" ? labelBox(row, label) : fieldBox(row, field, label));
    line.append(cell);
  }
  const p = note(row);
  line.append(p);
  return line;
}

update();
