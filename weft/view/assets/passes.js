// The sides of the graph panel: the passes with what each changed, search, and what is known of an
// operator, among it why it is not one kernel with its neighbors.

function graphPanel(build) {
  if (!build.stages.length) return { element: emptyState("No graph", build.missing.graph || "") };
  const view = new GraphView(build);
  const details = el("aside.details", { "aria-label": "Operator" });
  const list = el("ol.passes");
  const state = { stage: build.stages.length - 1, before: false };
  const toggle = el("div.toggle", { role: "group", "aria-label": "Before or after the pass" });

  function graphOf(stage) {
    return build.graphs[build.stages[Math.max(0, stage)].graph];
  }

  // Which operators differ between the graph in front of the pass and that behind it.
  function show() {
    const { stage, before } = state;
    const [old, next] = [flatten(build, graphOf(stage - 1)), flatten(build, graphOf(stage))];
    const marks = marksBetween(build, old, next, before);
    view.marks = (box) => (box.number === undefined ? null : marks.get(box.number) || null);
    view.show(before ? graphOf(stage - 1) : graphOf(stage));
    [...list.children].forEach((item, number) => item.firstChild.setAttribute("aria-current", String(number === stage)));
    const names = ["before", "after"].map((name, number) => {
      const pressed = String(before === (number === 0));
      const onclick = () => Object.assign(state, { before: number === 0 }) && show();
      return el("button", { "aria-pressed": pressed, onclick, disabled: stage === 0 }, name);
    });
    toggle.replaceChildren(...names);
    describePass();
  }

  function describePass() {
    const { name, seconds, before, after, changes = {}, notes = [] } = build.stages[state.stage];
    const lines = Object.entries(changes).map(([op, by]) => el("li", {}, `${op.replace("graph.", "")} ${by > 0 ? "+" : ""}${by}`));
    const counts = state.stage ? `${before} → ${after} operators, ${timeText(1e9 * seconds)}` : "as it was read";
    const legend = [["added", "added"], ["changed", "changed"], ["removed", "removed"]].map(([mark, text]) => el(`span.mark.${mark}`, {}, text));
    const hint = "Select an operator to see where it comes from, its types, and why it is a kernel of its own.";
    details.replaceChildren(
      el("h2", {}, name), el("p", {}, counts), state.stage ? el("p.legend", {}, legend) : "",
      el("ul.changes", {}, lines), el("ul.changes", {}, notes.map((note) => el("li", {}, note))), el("p.quiet", {}, hint),
    );
  }

  build.stages.forEach((stage, number) => {
    const same = number > 0 && stage.graph === build.stages[number - 1].graph;
    const by = stage.after - stage.before;
    const text = number === 0 ? "" : same ? "same" : by === 0 ? "±0" : by > 0 ? `+${by}` : `−${-by}`;
    const onclick = () => Object.assign(state, { stage: number, before: false }) && show();
    const button = el("button", { class: same ? "same" : null, onclick }, el("span", {}, stage.name.replace("weft-", "")), el("span.count", {}, text));
    list.append(el("li", {}, button));
  });
  view.onpick = (box) => details.replaceChildren(...operatorDetails(build, view, box));
  follow(() => view.mark());
  show();
  const zoom = el("div.zoom", {}, [["+", 1.25, "Zoom in"], ["−", 0.8, "Zoom out"]].map(([text, factor, title]) => el("button", { title, onclick: () => view.zoom(factor) }, text)));
  const groups = el("button", { onclick: () => openAll(build, view), title: "Open or close all kernels" }, "open all");
  const bar = el("div.bar", {}, graphSearch(build, view), toggle, groups, zoom);
  const side = el("nav.side", { "aria-label": "Passes" }, el("h2", {}, "Passes"), list);
  return { element: el("div.columns", {}, side, el("div.main", {}, bar, view.element), details), focus: () => focusSelected(build, view), view };
}

// All operators of a graph, inner ones too, by number, and the names of what they compute.
function flatten(build, graph) {
  const found = new Set();
  const enter = (region) => {
    for (const number of region.nodes) {
      found.add(number);
      (build.nodes[number].regions || []).forEach(enter);
    }
  };
  enter(graph);
  const names = new Set([...found].map((number) => build.nodes[number].results?.[0]?.[0]));
  return Object.assign(found, { names });
}

function marksBetween(build, old, next, before) {
  const marks = new Map();
  const [shown, other] = before ? [old, next] : [next, old];
  for (const number of shown)
    if (!other.has(number)) {
      const name = build.nodes[number].results?.[0]?.[0];
      marks.set(number, other.names.has(name) ? "changed" : before ? "removed" : "added");
    }
  return marks;
}

function openAll(build, view) {
  const groups = view.boxes.filter((box) => box.openable && !box.scopes);
  if (groups.length) groups.forEach((box) => view.opened.add(box.path));
  else view.opened.clear();
  view.relay();
}

// Brings what is selected in other panels into view.
function focusSelected(build, view) {
  view.drawSoon();
  const { kernel, origin } = selection;
  if (!kernel && !origin) return;
  const fits = (box) => (origin ? box.node?.origin?.includes(origin) : box.call?.kernel === kernel);
  const box = view.boxes.find((each) => each.role === "operator" && fits(each));
  if (box && box.path !== view.current) {
    const chosen = { ...selection };
    view.go(box.path);
    select(chosen, build);
  }
}

// What is known of an operator, input or output.
function operatorDetails(build, view, box) {
  const { node, call, number } = box;
  const jump = (name) => {
    const edge = view.edges.find((each) => each.value === name && each.last === box);
    return el("button.link", { onclick: () => edge && view.go(edge.first.path), disabled: !edge }, name);
  };
  const rows = (title, entries) =>
    entries.length ? [el("h3", {}, title), el("dl", {}, entries.flatMap(([name, text]) => [el("dt", {}, name), el("dd", {}, text)]))] : [];
  if (!node) return [el("h2", {}, box.title), el("p", {}, `${box.role} ${box.subtitle}`)];
  const reasons = (build.reasons.get(number) || []).map(([, value, all]) => [jump(value), all.join("; ")]);
  const types = new Map([...(box.weights || []), ...view.edges.filter((edge) => edge.last === box).map((edge) => [edge.value, edge.type])]);
  const reads = [...types].map(([name, type]) => [jump(name), type]);
  const kernel = call && [
    el("h3", {}, "Kernel"),
    el("p", {}, el("button.link", { onclick: () => showPanel("kernels") }, call.kernel)),
    el("p.quiet", {}, [`${countText(call.flops)} FLOP, ${bytesText(call.bytes)}`, build.nanoseconds(call.kernel) !== null ? `, ${timeText(build.nanoseconds(call.kernel))} in ${build.callsOfKernel.get(call.kernel).length} calls` : ""]),
  ];
  return [
    el("h2", {}, box.title), box.title === node.op || node.op === "fused" ? "" : el("p", {}, node.op),
    ...(node.origin?.length ? [el("h3", {}, "From"), el("ul.plainlist", {}, node.origin.map((each) => el("li", {}, el("button.link", { onclick: () => select({ origin: each }, build) }, each))))] : []),
    ...(kernel || []),
    ...rows("Results", node.results || []), ...rows("Reads", reads),
    ...rows("A kernel of its own because", reasons),
    ...(node.attributes ? [el("h3", {}, "Attributes"), el("p.code", {}, node.attributes)] : []),
  ];
}

// A field that finds operators by name, value, node of the model or kernel.
function graphSearch(build, view) {
  const results = el("ul.results", { role: "listbox", hidden: true });
  const field = el("input", { type: "search", placeholder: "Find an operator, value or node  ( / )", "aria-label": "Find", oninput: find, onkeydown: leave });

  function find() {
    const wanted = field.value.trim().toLowerCase();
    const found = wanted ? [...matches(build, view.graph, "", wanted)].slice(0, 40) : [];
    results.hidden = !found.length;
    results.replaceChildren(...found.map(({ path, title, text }) => {
      const go = () => {
        results.hidden = true;
        view.go(path);
      };
      return el("li", { role: "option" }, el("button.plain", { onclick: go }, el("b", {}, title), ` ${text}`));
    }));
  }

  function leave(event) {
    if (event.key === "Escape") results.hidden = true;
    else if (event.key === "Enter") results.querySelector("button")?.click();
  }

  return el("div.search", {}, field, results);
}

function* matches(build, region, path, wanted) {
  for (const number of region.nodes) {
    const node = build.nodes[number];
    const call = build.callOfNode.get(number);
    const texts = [node.op === "fused" ? "" : node.op, ...(node.results || []).map(([name]) => name), ...(node.origin || []), call?.kernel || ""];
    const text = texts.find((each) => each.toLowerCase().includes(wanted));
    const own = `${path}/${number}`;
    if (text && node.op !== "constant") yield { path: own, title: titleOf(build, node, call), text: text === node.op ? node.results?.[0]?.[0] || "" : text };
    for (const [each, inner] of (node.regions || []).entries()) yield* matches(build, inner, `${own}.${each}`, wanted);
  }
}

