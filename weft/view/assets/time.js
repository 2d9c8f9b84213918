// The time panel: what each thread did in the median call, gaps and waiting included, and where the
// time went by kernel, operator and node of the model.

function timePanel(build) {
  const { time } = build;
  if (!time) return { element: emptyState("No times", build.missing.time || "The model was not run.") };
  const { spans, median_ns: total, calls_ns: calls, threads } = time;
  const byThread = grouped(spans, ([thread]) => thread);
  const busy = (thread) => sum((byThread.get(thread) || []).map(([, , call, begin, end]) => (call === null ? 0 : end - begin)));
  const marks = new Map();

  function draw(width) {
    const row = 40;
    const height = FRAME.top + threads * row + FRAME.bottom;
    const x = scaleOf(0, total, FRAME.left + 20, width - FRAME.right);
    const none = { at: () => 0, ticks: [] };
    const plot = plotFrame(width, height, x, none, { x: "from the beginning of the call", y: "", title: "Timeline", xTick: timeText });
    for (let thread = 0; thread < threads; thread += 1) {
      const top = FRAME.top + thread * row;
      plot.append(svg("text.end", { x: FRAME.left + 8, y: top + 22 }, `thread ${thread}`), svg("rect.idle", { x: x.at(0), y: top + 4, width: x.at(total) - x.at(0), height: row - 10 }));
      for (const span of byThread.get(thread) || []) plot.append(bar(span, x, top + 4, row - 10));
    }
    mark();
    return plot;
  }

  function bar([, kernel, call, begin, end], x, y, height) {
    const [left, right] = [x.at(begin), x.at(end)];
    const rect = svg("rect", { x: left, y, width: Math.max(0.5, right - left), height, class: `span ${call === null ? "waits" : familyOf(kernel)}` });
    const origin = build.calls[call]?.origin || [];
    if (call !== null) rect.addEventListener("click", () => select({ kernel, origin: origin.length === 1 ? origin[0] : null }, build));
    describe(rect, () => [kernel, `${timeText(end - begin)}, from ${timeText(begin)} on`, origin.join(", ")].filter(Boolean));
    marks.set(rect, kernel);
    const name = kernel.replace(/_[0-9a-f]{8}$/, "");
    const fits = right - left > 34 && textWidth(name, "small") < right - left - 6;
    return fits ? svg("g", {}, rect, svg("text.spanlabel", { x: left + 4, y: y + height / 2 + 4 }, name)) : rect;
  }

  const mark = () => {
    marks.forEach((kernel, rect) => rect.classList.toggle("selected", isSelected(kernel)));
    tables.forEach((each) => each.update());
  };
  const tables = [];
  const kernelOf = (operator) => build.kernels.find((kernel) => kernel.name.replace(/_[0-9a-f]{8}$/, "") === operator)?.name;
  const views = ["kernel", "operator", "node"].map((name) => {
    const find = { kernel: (row) => ({ kernel: row.name }), operator: (row) => ({ kernel: kernelOf(row.name) }), node: (row) => ({ origin: row.name.split(", ")[0] }) }[name];
    const columns = [{ title: name, text: (row) => row.name }, { title: "time", number: true, sort: (row) => row.ns, text: (row) => timeText(row.ns), bar: (row) => row.ns / total }, { title: "share", number: true, sort: (row) => row.ns, text: (row) => percentText(row.ns / total) }, { title: "runs", number: true, sort: (row) => row.runs, text: (row) => (row.runs ? String(row.runs) : "") }];
    const table = sortedTable(columns, time[`by_${name}`], { order: [1, true], label: `Time by ${name}`, choose: (row) => select(find(row), build), chosen: (row) => { const { kernel, origin } = find(row); return kernel ? isSelected(kernel) : origin === selection.origin; } });
    tables.push(table);
    return el("section", {}, el("h3", {}, `By ${name}`), table.element);
  });
  const spread = `${timeText(Math.min(...calls))} to ${timeText(Math.max(...calls))} in ${calls.length} calls`;
  const tiles = [[timeText(total), "the median call", spread], ...Array.from({ length: threads }, (_, thread) => [percentText(busy(thread) / total), `thread ${thread} in kernels`, `${timeText(total - busy(thread))} of gaps and waiting`])];
  follow(mark);
  const chart = responsive("plotbox", draw).element;
  return { element: el("div.page", {}, el("h2", {}, "Time"), el("div.tiles", {}, tiles.map(([value, label, note]) => el("div.tile", {}, el("b", {}, value), el("span", {}, label), el("small", {}, note)))), familyLegend(), chart, el("div.threetables", {}, views)) };
}

