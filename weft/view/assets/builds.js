// Two builds beside each other: what differs in kernels, plans, time, memory and outputs, and where
// they part.

function buildsPanel([first, second]) {
  const rows = [
    ["file", first.file, second.file], ["weft", first.weft, second.weft], ["CPU", first.cpu, second.cpu],
    ["a call", ...[first, second].map((build) => (build.time ? timeText(build.time.median_ns) : "not run"))],
    ["kernels", first.kernels.length, second.kernels.length],
    ["FLOP", ...[first, second].map((build) => totalText(build, "flops", countText))],
    ["read and written", ...[first, second].map((build) => totalText(build, "bytes", bytesText))],
    ["workspace", bytesText(first.memory.workspace), bytesText(second.memory.workspace)],
    ["kernels with schedules of one's own", ...[first, second].map((build) => build.kernels.filter((each) => each.schedules.includes("forced")).length)],
    ["weights", ...[first, second].map((build) => bytesText(sum(build.memory.weights.map((each) => each.bytes))))],
  ];
  const summary = el("table.summary", {}, el("thead", {}, el("tr", {}, ["", "A", "B"].map((title) => el("th", { scope: "col" }, title)))), el("tbody", {}, rows.map(([name, a, b]) => el("tr", { class: String(a) === String(b) ? null : "differs" }, el("th", { scope: "row" }, name), el("td", {}, String(a)), el("td", {}, String(b))))));
  const names = [...new Set([...first.kernels, ...second.kernels].map((kernel) => kernel.name))];
  const kernels = names.map((name) => kernelPair(name, first, second)).sort((x, y) => (y.a || y.b) - (x.a || x.b));
  const time = (key) => ({ title: key.toUpperCase(), number: true, sort: (row) => row[key], text: (row) => timeText(row[key]) });
  const columns = [{ title: "kernel", text: (row) => row.name }, { title: "differs in", text: (row) => row.differs }, time("a"), time("b"), { title: "A / B", number: true, sort: (row) => row.ratio, text: (row) => (row.ratio ? row.ratio.toFixed(2) : "") }];
  const table = sortedTable(columns, kernels, { choose: (row) => select({ kernel: row.name }, row.build), chosen: (row) => isSelected(row.name), order: [1, true], label: "Kernels of both builds" });
  const nodes = sortedTable([{ title: "node", text: (row) => row.name }, time("a"), time("b"), columns.at(-1)], nodePairs(first, second), { choose: (row) => select({ origin: row.name.split(", ")[0] }), order: [1, true], label: "Nodes of both builds" });
  const difference = el("div.code");
  follow(() => {
    table.update();
    difference.replaceChildren(...scheduleDifference(selection.kernel, first, second));
  });
  const hint = "Select a kernel to see its loops in A and B as a difference.";
  difference.append(el("p.quiet", {}, first.stages.length && second.stages.length ? hint : ""));
  return { element: el("div.page", {}, el("h2", {}, `A: ${first.name} and B: ${second.name}`), summary, el("h3", {}, "Outputs"), outputsText(VIEW.parting), el("div.pair", {}, el("section", {}, el("h3", {}, "Kernels"), table.element, el("h3", {}, "By node of the model"), nodes.element), difference)) };
}

function totalText(build, what, text) {
  const counts = build.kernels.map((kernel) => kernel[what]);
  return counts.every((count) => typeof count === "number") ? text(sum(counts)) : "varies";
}

function kernelPair(name, first, second) {
  const [mine, other] = [first.kernelByName.get(name), second.kernelByName.get(name)];
  const [a, b] = [first.nanoseconds(name), second.nanoseconds(name)];
  const differs = !mine ? "only in B" : !other ? "only in A" : differencesOf(mine, other);
  return { name, differs, a, b, ratio: a && b ? a / b : null, build: mine ? first : second };
}

// Times by what kernels compute: kernels of other options have other names.
function nodePairs(...builds) {
  const times = builds.map(({ time }) => new Map((time?.by_node || []).map((row) => [row.name, row.ns])));
  return [...new Set(times.flatMap((each) => [...each.keys()]))].map((name) => {
    const [a, b] = times.map((each) => each.get(name) ?? null);
    return { name, a, b, ratio: a && b ? a / b : null };
  });
}

function differencesOf(a, b) {
  const stepsOf = (kernel) => kernel.texts?.steps.map((step) => step.call).join("\n");
  const checks = [
    ["calls", a.calls !== b.calls], ["schedules", a.schedules.join() !== b.schedules.join()],
    ["steps", stepsOf(a) !== stepsOf(b)], ["plan", planText(a) !== planText(b)], ["bytes", a.bytes !== b.bytes],
  ];
  return checks.filter(([, is]) => is).map(([what]) => what).join(", ");
}

const planText = (kernel) => (kernel.texts?.plans || []).map((plans) => plans.chosen.plan).join();

function outputsText(parting) {
  if (!parting) return el("p.quiet", {}, "Not compared: both have to run here, and to take the same inputs.");
  const items = parting.outputs.map(({ name, absolute, of_scale: share }) => el("li", {}, absolute === 0 ? `${name}: the same` : `${name}: differs by ${numberText(absolute)} at most, ${numberText(share)} of its largest magnitude`));
  const where = parting.value && el("p", {}, `They part at ${parting.value}${parting.node ? `, which ${parting.node} computes` : ""}.`);
  return el("div", {}, el("ul.plainlist", {}, items), where);
}

// The finished loops of a kernel in A and B, as a difference of lines.
function scheduleDifference(name, first, second) {
  const texts = [first, second].map((build) => build.kernelByName.get(name)?.texts);
  if (!texts[0] || !texts[1]) return [];
  const [a, b] = texts.map(({ naive, steps }) => steps.reduce((lines, step) => edited(lines, step.edits), naive.split("\n")));
  return [el("h3", {}, `Loops of ${name}: − A, + B`), codeBlock(comparedLines(a, b), "Loops of both builds")];
}

// The longest common subsequence of two short lists of lines.
function comparedLines(a, b) {
  const lengths = Array.from({ length: a.length + 1 }, () => new Uint16Array(b.length + 1));
  for (let i = a.length - 1; i >= 0; i -= 1)
    for (let j = b.length - 1; j >= 0; j -= 1)
      lengths[i][j] = a[i] === b[j] ? lengths[i + 1][j + 1] + 1 : Math.max(lengths[i + 1][j], lengths[i][j + 1]);
  const lines = [];
  let [i, j] = [0, 0];
  while (i < a.length || j < b.length) {
    if (i < a.length && j < b.length && a[i] === b[j]) lines.push({ text: a[i++], mark: null, also: j++ });
    else if (j === b.length || (i < a.length && lengths[i + 1][j] >= lengths[i][j + 1])) lines.push({ text: a[i++], mark: "removed" });
    else lines.push({ text: b[j++], mark: "added" });
  }
  return lines;
}

