// Tables that sort by a click on a column's head, and whose rows can be chosen by keyboard.

// Columns: {title, text(row), sort(row)?, number?, bar(row)?}. `choose` is called with a row that is
// clicked, `chosen` says whether a row is marked. Returns {element, update}.
function sortedTable(columns, rows, { choose, chosen = () => false, order = null, label = "" } = {}) {
  let [column, descending] = order || [null, false];
  const body = el("tbody");
  const heads = columns.map((each, number) =>
    el(
      "th",
      { scope: "col", class: each.number ? "number" : null },
      el("button.plain", { onclick: () => sortBy(number) }, each.title),
    ),
  );
  const key = (row) => (columns[column].sort || columns[column].text)(row) ?? -Infinity;
  const compare = (a, b) => {
    const [first, second] = [key(a), key(b)];
    return (first < second ? -1 : first > second ? 1 : 0) * (descending ? -1 : 1);
  };

  function sortBy(number) {
    descending = column === number ? !descending : Boolean(columns[number].number);
    column = number;
    draw();
  }

  function draw() {
    heads.forEach((head, number) => {
      const direction = descending ? "descending" : "ascending";
      head.setAttribute("aria-sort", number === column ? direction : "none");
    });
    const list = column === null ? rows : [...rows].sort(compare);
    body.replaceChildren(...list.map(drawRow));
  }

  function drawRow(row) {
    const cells = columns.map((each) => {
      const text = each.text(row);
      const long = String(text ?? "").length > 24; // an expression over sizes
      const cell = el("td", { class: each.number && !long ? "number" : null, title: each.title_of?.(row) }, text ?? "");
      if (each.bar) cell.append(meter(each.bar(row)));
      return cell;
    });
    if (!choose) return el("tr", {}, cells);
    const pick = () => choose(row);
    const onkey = (event) => {
      const next = { ArrowDown: "nextSibling", ArrowUp: "previousSibling" }[event.key];
      if (next && event.currentTarget[next]) event.currentTarget[next].focus();
      else if (event.key === "Enter" || event.key === " ") pick();
      else return;
      event.preventDefault();
    };
    const marked = chosen(row);
    return el("tr.choice", { tabindex: 0, "aria-selected": String(marked), onclick: pick, onkeydown: onkey }, cells);
  }

  function meter(share) {
    const bar = el("div.meter", { "aria-hidden": true }, el("div"));
    bar.firstChild.style.width = `${100 * Math.min(1, share)}%`;
    return bar;
  }

  function update() {
    const focused = [...body.children].indexOf(document.activeElement);
    draw();
    if (focused >= 0) body.children[focused]?.focus();
  }

  draw();
  const head = el("thead", {}, el("tr", {}, heads));
  return { element: el("table", { "aria-label": label }, head, body), update };
}

