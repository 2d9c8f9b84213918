// The memory panel: each buffer of the arena from its first to its last operation at its offset, the
// moment at which most bytes are alive, and the weights.

function memoryPanel(build) {
  const { workspace, buffers, weights, donated } = build.memory;
  const placed = buffers.filter(({ offset, bytes }) => typeof offset === "number" && typeof bytes === "number");
  const total = sum(weights.map((each) => each.bytes));
  const peak = peakOf(placed);
  const tiles = [["workspace", typeof workspace === "number" && bytesText(workspace)], ["weights", bytesText(total)], ["most alive at once", peak ? bytesText(peak.bytes) : ""], ["buffers", String(buffers.length)], ["computed in place", String(buffers.filter((each) => each.in_place_of).length)]];
  const kernelAt = new Map(build.calls.map((call) => [call.position, call]));
  const marks = new Map();

  function draw(width) {
    const height = 460;
    const last = Math.max(...placed.map((each) => each.last)) + 1;
    const x = scaleOf(Math.min(...placed.map((each) => each.first)), last, FRAME.left, width - FRAME.right);
    const top = Math.max(...placed.map(({ offset, bytes }) => offset + bytes));
    const y = { ...scaleOf(0, top, height - FRAME.bottom, FRAME.top + 16), ticks: binaryTicks(top) };
    const plot = plotFrame(width, height, x, y, { x: "operation of the program", y: "offset", title: "Memory plan", xTick: (tick) => (Number.isInteger(tick) ? String(tick) : ""), yTick: bytesText });
    for (const buffer of placed) {
      const [left, right, low] = [x.at(buffer.first), x.at(buffer.last + 1), y.at(buffer.offset)];
      const high = y.at(buffer.offset + buffer.bytes);
      const bar = svg(`rect.buffer${buffer.in_place_of ? ".inplace" : ""}`, { x: left, y: high, width: Math.max(1, right - left - 1), height: Math.max(1, low - high - 0.5), rx: 2, tabindex: 0, role: "button", "aria-label": buffer.name });
      const choose = () => select({ kernel: writer(buffer)?.kernel, value: buffer.name }, build);
      bar.addEventListener("click", choose);
      bar.addEventListener("keydown", (event) => event.key === "Enter" && choose());
      describe(bar, () => bufferLines(buffer));
      marks.set(bar, buffer);
      plot.append(bar);
      const label = fitted(buffer.name, right - left - 10);
      if (right - left > 60 && low - high > 16) plot.append(svg("text.bufferlabel", { x: left + 5, y: (low + high) / 2 + 4 }, label));
    }
    const at = x.at(peak.position + 0.5);
    const side = at > width * 0.7 ? ".end" : "";
    plot.append(svg("path.peak", { d: `M${at} ${FRAME.top - 6}V${height - FRAME.bottom}` }), svg(`text.peaktext${side}`, { x: at + (side ? -6 : 6), y: FRAME.top + 4 }, `peak: ${bytesText(peak.bytes)} alive`));
    mark();
    return plot;
  }

  const writer = (buffer) => kernelAt.get(buffer.first);

  function bufferLines({ name, offset, bytes, first, last, in_place_of: replaced }) {
    const call = kernelAt.get(first);
    return [name, `${bytesText(bytes)} at ${offset}, operations ${first} to ${last}`, call ? `first needed by ${call.kernel}` : "", replaced ? `in place of ${replaced}` : ""].filter(Boolean);
  }

  function mark() {
    marks.forEach((buffer, bar) => bar.classList.toggle("selected", buffer.name === selection.value || (writer(buffer) && isSelected(writer(buffer).kernel))));
    tables.forEach((each) => each.update());
  }

  const chosen = ({ name }) => name === selection.value;
  const choose = ({ name }) => select({ value: name }, build);
  const bytes = { title: "bytes", number: true, sort: (row) => row.bytes, text: (row) => bytesText(row.bytes) };
  const columns = [{ title: "buffer", text: (row) => row.name }, bytes, { title: "offset", number: true, sort: (row) => row.offset, text: (row) => String(row.offset) }, { title: "alive", number: true, sort: (row) => row.first, text: (row) => `${row.first}–${row.last}` }, { title: "in place of", text: (row) => row.in_place_of || "" }];
  const tables = [
    sortedTable(columns, buffers, { choose: (row) => select({ kernel: writer(row)?.kernel, value: row.name }, build), chosen, label: "Buffers" }),
    sortedTable([{ title: "weight", text: (row) => row.name }, bytes], weights, { choose, chosen, order: [1, true], label: "Weights" }),
  ];
  follow(mark);
  const chart = placed.length ? responsive("plotbox", draw).element : el("p", {}, buffers.length ? `Sizes vary from call to call: offsets are expressions, in the table. The arena has ${workspace} bytes.` : "The program needs no buffers of its own.");
  const pairs = donated.map(([input, output]) => el("li", {}, `output ${output} takes the memory of input ${input}`));
  return {
    element: el("div.page", {},
      el("h2", {}, "Memory"), el("div.tiles", {}, tiles.filter(([, text]) => text).map(([label, text]) => el("div.tile", {}, el("b", {}, text), el("span", {}, label)))),
      pairs.length ? el("ul.donated", {}, pairs) : null, chart,
      el("p.quiet", {}, "A dashed bar is computed in place: it takes over the bytes of the buffer that ends where it begins."),
      el("div.twotables", {}, el("section", {}, el("h3", {}, "Buffers"), tables[0].element), el("section", {}, el("h3", {}, "Weights"), tables[1].element))),
  };
}

// The operation at which most bytes are alive.
function peakOf(buffers) {
  const steps = new Map();
  const add = (position, bytes) => steps.set(position, (steps.get(position) || 0) + bytes);
  for (const { first, last, bytes } of buffers) {
    add(first, bytes);
    add(last + 1, -bytes);
  }
  let [alive, best] = [0, null];
  for (const [position, change] of [...steps].sort((a, b) => a[0] - b[0])) {
    alive += change;
    if (!best || alive > best.bytes) best = { position, bytes: alive };
  }
  return best;
}

