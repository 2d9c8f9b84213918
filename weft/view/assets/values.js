// The values panel: a histogram of each watched tensor, and its first element that is not finite.

function valuesPanel(build) {
  const hint = "Name tensors to look at: weft view model.onnx --watch NAME (and --inputs x.npz).";
  if (!build.values.length) return { element: emptyState("No watched values", build.missing.values || hint) };
  const cards = build.values.map((value) => {
    const rows = [["type", `${value.dtype}[${value.shape.join(", ")}]`], ["least", numberText(value.least)], ["most", numberText(value.most)], ["mean", numberText(value.mean)], ["deviation", numberText(value.deviation)], ["zeros", String(value.zeros)], ["NaN", String(value.nans)], ["infinite", String(value.infinities)]];
    const bad = value.first_not_finite && el("p.bad", {}, `first not finite: [${value.first_not_finite.join(", ")}]`);
    const card = el("section.card", {}, el("h3", {}, el("button.link", { onclick: () => select({ value: value.name }, build) }, value.name)), bad, histogramOf(value), el("dl", {}, rows.flatMap(([name, text]) => [el("dt", {}, name), el("dd", {}, text)])));
    follow(() => card.classList.toggle("selected", selection.value === value.name));
    return card;
  });
  return { element: el("div.page", {}, el("h2", {}, "Values"), el("div.cards", {}, cards)) };
}

function histogramOf({ counts, edges, name }) {
  const [width, height] = [320, 120];
  if (!counts.length) return el("p.quiet", {}, "No element is finite.");
  const most = Math.max(...counts);
  const step = width / counts.length;
  const bars = counts.map((count, n) => {
    const tall = count ? Math.max(1, (count / most) * (height - 4)) : 0;
    const bar = svg("rect.bin", { x: n * step, y: height - tall, width: step - 1, height: tall });
    return describe(bar, () => [`${count} elements`, `from ${numberText(edges[n])} to ${numberText(edges[n + 1])}`]);
  });
  const ends = [svg("text", { x: 0, y: height + 14 }, numberText(edges[0])), svg("text.end", { x: width, y: height + 14 }, numberText(edges.at(-1)))];
  return svg("svg.histogram", { viewBox: `0 0 ${width} ${height + 18}`, role: "img", "aria-label": `Histogram of ${name}` }, bars, svg("path.ground", { d: `M0 ${height}H${width}` }), ends);
}

