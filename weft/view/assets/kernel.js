// The kernel panel: a table of all kernels, and of the selected one how it was made, from the naive
// nest through each step of its schedule to LLVM IR and assembly, beside what it costs.

const VIEWS = [["schedule", "Schedule"], ["plan", "Plan"], ["ir", "LLVM IR"], ["assembly", "Assembly"]];

function kernelPanel(build) {
  if (!build.kernels.length) return { element: emptyState("No kernels", "The model computes nothing.") };
  const state = { view: "schedule", step: new Map() };
  const main = el("div.main.scroll");
  const chosen = () => build.kernelByName.get(selection.kernel);
  const { element, update } = sortedTable(kernelColumns(build), build.kernels, {
    choose: (kernel) => select({ kernel: kernel.name }, build),
    chosen: (kernel) => kernel === (chosen() || slowest(build)),
    order: build.time ? [1, true] : null,
    label: "Kernels",
  });

  function draw() {
    const kernel = chosen() || slowest(build);
    if (!kernel.texts) {
      main.replaceChildren(kernelHead(build, kernel), emptyState("No texts", build.missing.kernel || "This kernel came without its texts."));
      return;
    }
    const tabs = VIEWS.map(([name, title]) => {
      const onclick = () => Object.assign(state, { view: name }) && draw();
      return el("button.tab", { role: "tab", "aria-selected": String(state.view === name), onclick, "data-view": name }, title);
    });
    const body = { schedule: scheduleView, plan: planView, ir: irView, assembly: assemblyView }[state.view];
    main.replaceChildren(kernelHead(build, kernel), el("div.tabs", { role: "tablist" }, tabs), body(kernel, state));
  }

  follow(() => {
    update();
    draw();
  });
  draw();
  return { element: el("div.columns.kernels", {}, el("div.side.scroll", {}, element), main), focus: update };
}

const slowest = (build) =>
  [...build.kernels].sort((a, b) => build.share(b.name) - build.share(a.name) || (b.flops || 0) - (a.flops || 0))[0];

function kernelColumns(build) {
  const spent = (kernel) => build.nanoseconds(kernel.name);
  const rate = (kernel) => (spent(kernel) && typeof kernel.flops === "number" ? kernel.flops / spent(kernel) : null);
  const time = { title: "time", number: true, sort: spent, text: (kernel) => timeText(spent(kernel)), bar: (kernel) => build.share(kernel.name) };
  return [
    { title: "kernel", text: (kernel) => kernel.name, title_of: (kernel) => build.origins(kernel.name).join("\n") },
    ...(build.time ? [time] : []),
    { title: "calls", number: true, sort: (kernel) => kernel.calls, text: (kernel) => String(kernel.calls) },
    { title: "FLOP", number: true, sort: (kernel) => kernel.flops, text: (kernel) => countText(kernel.flops) },
    ...(build.time ? [{ title: "GFLOP/s", number: true, sort: rate, text: (kernel) => (rate(kernel) === null ? "" : rate(kernel).toFixed(1)) }] : []),
  ];
}

// The name, what schedules were taken and refused, and numbers in tiles.
function kernelHead(build, kernel) {
  const tile = (label, value, note = "") => value && el("div.tile", {}, el("b", {}, value), el("span", {}, label), note && el("small", {}, note));
  const [measured, expected] = [build.nanoseconds(kernel.name), build.expected(kernel.name)];
  const loop = hottest(kernel.loops);
  const tiles = [
    tile("measured, all calls", measured !== null && timeText(measured), build.time && `${percentText(build.share(kernel.name))} of all kernels`),
    tile("expected on one thread", expected !== null && timeText(expected), "by the model of the CPU"),
    tile("computed", `${countText(kernel.flops)} FLOP`, `${kernel.calls} ${kernel.calls === 1 ? "call" : "calls"}`),
    tile("read and written", bytesText(kernel.bytes)),
    loop && tile("vectors", loop.vector_bits ? `${loop.vector_bits} bit` : "none", `${loop.multiply_adds} multiply-adds, ${loop.loads} loads, ${loop.stores} stores`),
    loop && tile("cycles an iteration", `≥ ${loop.cycles}`, `${loop.instructions} instructions`),
    kernel.texts && tile("spills and reloads", String(kernel.spills)),
  ];
  const origins = build.origins(kernel.name);
  const refused = kernel.refused.map((text) => el("li", {}, text));
  return el(
    "header.kernelhead", {},
    el("h2", {}, kernel.name),
    el("p.quiet", { title: origins.join("\n") }, `schedules: ${[...new Set(kernel.schedules)].join(", ") || "none"}`, ` · ${origins.slice(0, 4).join(", ")}${origins.length > 4 ? ` and ${origins.length - 4} more` : ""}`),
    el("div.tiles", {}, tiles.filter(Boolean)),
    refused.length ? el("details", {}, el("summary", {}, `${refused.length} refused`), el("ul", {}, refused)) : null,
  );
}

// Of the innermost loops, the one that computes most in an iteration.
const hottest = (loops) => [...loops].sort((a, b) => b.multiply_adds - a.multiply_adds || b.vector_bits - a.vector_bits)[0];

function scheduleView(kernel, state) {
  const texts = [kernel.texts.naive.split("\n")];
  for (const step of kernel.texts.steps) texts.push(edited(texts.at(-1), step.edits));
  const steps = [{ call: "naive nest", edits: [] }, ...kernel.texts.steps, { call: "scheduled", edits: [] }];
  const list = el("ol.steps", { "aria-label": "Steps" });
  const code = el("div.code");

  function show(number) {
    state.step.set(kernel.name, number);
    const last = number === steps.length - 1;
    const before = texts[Math.max(0, Math.min(number, texts.length) - 1)];
    const lines = number === 0 || last ? plainLines((last ? texts.at(-1) : texts[0]).join("\n")) : differenceLines(before, steps[number].edits);
    code.replaceChildren(codeBlock(lines, "Loops"));
    [...list.children].forEach((item, each) => item.firstChild.setAttribute("aria-current", String(each === number)));
  }

  steps.forEach(({ call, edits }, number) => {
    const [name, parameters] = [call.split("{")[0], call.slice(call.split("{")[0].length)];
    const same = number > 0 && number < steps.length - 1 && !edits.length;
    const onkeydown = (event) => {
      const next = { ArrowDown: number + 1, ArrowUp: number - 1 }[event.key];
      if (next === undefined || !list.children[next]) return;
      event.preventDefault();
      list.children[next].firstChild.focus();
      show(next);
    };
    list.append(el("li", {}, el("button", { class: same ? "same" : null, onclick: () => show(number), onkeydown }, el("b", {}, name), el("span", {}, parameters))));
  });
  show(Math.min(state.step.get(kernel.name) ?? steps.length - 1, steps.length - 1));
  return el("div.schedule", {}, list, code);
}

function planView(kernel) {
  const { plans } = kernel.texts;
  if (!plans.length) return emptyState("No plans", "The kernel has no product and no convolution whose plan was chosen among others.");
  const terms = ["total", "compute", "panel", "rows", "packing", "once"];
  return el("div.plans", {}, plans.map(({ extents, chosen, others, count }) => {
    const row = (plan, mark) => el("tr", { class: mark ? "chosen" : null }, el("td", {}, mark), el("td.code", {}, plan.plan), terms.map((term) => el("td.number", {}, term in plan.cost_ns ? timeText(plan.cost_ns[term]) : "")));
    const head = el("tr", {}, ["", "plan", ...terms].map((title) => el("th", { scope: "col", class: terms.includes(title) ? "number" : null }, title)));
    const note = "compute: the tiles where L1 has what they read; panel and rows: bringing both factors there; packing; once: what is moved a single time.";
    const rest = count > 1 ? `the chosen of ${count} plans, and those that cost least` : "the only plan";
    return el("section", {}, el("h3", {}, `${extents.join(" × ")}: ${rest}`), el("table", {}, el("thead", {}, head), el("tbody", {}, row(chosen, "✓"), others.map((each) => row(each, "")))), el("p.quiet", {}, note));
  }));
}

// LLVM keeps the names of blocks as comments of the assembly: by these a loop is found in the IR.
function irView(kernel) {
  const lines = plainLines(kernel.texts.ir);
  const assembly = kernel.texts.assembly.split("\n");
  for (const { first } of kernel.loops) {
    const block = assembly[first].match(/(?:#|\/\/) %(\S+)/)?.[1];
    const name = assembly.slice(0, first).findLast((line) => /(#|\/\/) @/.test(line))?.match(/@"?([^"]+)"?$/)[1];
    const start = lines.findIndex(({ text }) => text.startsWith("define") && /@"?([^"(]+)/.exec(text)[1] === name);
    const from = lines.findIndex(({ text }, n) => n > start && text === `${block}:`);
    for (let n = from; n >= 0 && lines[n].text && (n === from || !/^\S+:$|^}/.test(lines[n].text)); n += 1) lines[n].mark = "loop";
  }
  return codeBlock(lines, "LLVM IR");
}

function assemblyView(kernel) {
  const lines = plainLines(kernel.texts.assembly);
  for (const loop of kernel.loops) for (let n = loop.first; n <= loop.last; n += 1) lines[n].mark = "loop";
  const block = codeBlock(lines, "Assembly");
  const jumps = kernel.loops.map((loop, number) => {
    const onclick = () => block.children[loop.first].scrollIntoView({ block: "center" });
    return el("button", { onclick }, `loop ${number + 1}: ${loop.instructions} instructions, ${loop.vector_bits || "no"} bit, ≥ ${loop.cycles} cycles`);
  });
  const most = el("p.quiet", {}, jumps.length ? "Innermost loops: " : "No loop is left: all are unrolled.");
  return el("div", {}, el("div.jumps", {}, most, jumps), block);
}

