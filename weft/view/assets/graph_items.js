// The operators of a graph -> boxes in boxes, and edges, with positions: what the graph panel draws.

const HEAD = 30; // the title of an open box
const INSET = 18; // between an open box and what is in it
const WIDEST = 230;
const ruler = document.createElement("canvas").getContext("2d");
const FONTS = { title: "600 12px system-ui, sans-serif", small: "11px system-ui, sans-serif" };

const widths = new Map();

function textWidth(text, font) {
  const key = `${font} ${text}`;
  if (!widths.has(key)) {
    ruler.font = FONTS[font];
    widths.set(key, ruler.measureText(text).width);
  }
  return widths.get(key);
}

// The text, cut in its middle to a width.
function fitted(text, width, font = "small") {
  if (textWidth(text, font) <= width) return text;
  let kept = text.length - 1;
  while (kept > 4 && textWidth(cut(text, kept), font) > width) kept -= 1;
  return cut(text, kept);
}

const cut = (text, kept) => `${text.slice(0, Math.ceil(kept / 2))}…${text.slice(text.length - (kept >> 1))}`;

// Lays out a region of the build; `opened` holds the paths of boxes that are open. Returns the boxes
// and edges of all levels with positions in one plane, outer boxes first.
function graphItems(build, graph, opened) {
  const found = { boxes: [], edges: [] };
  const scope = scopeOf(build, graph, "", opened, null);
  collect(scope, INSET, INSET, found);
  return { ...found, width: scope.width + 2 * INSET, height: scope.height + 2 * INSET };
}

// A region as boxes and edges of one level, laid out from 0, 0 on.
function scopeOf(build, region, path, opened, call) {
  const boxes = [];
  const edges = [];
  const makers = new Map(); // value name -> number of the box that has it
  const types = new Map(region.arguments);
  const weights = new Map();
  const seen = new Set();
  for (const [name, type] of region.arguments) makers.set(name, boxes.push(terminal("input", name, type, path)) - 1);
  for (const number of region.nodes) {
    const node = build.nodes[number];
    const results = node.results || [];
    if (node.op === "constant") {
      for (const [name, type] of results) weights.set(name, type);
      continue;
    }
    const box = boxOf(build, number, `${path}/${number}`, opened, call);
    const reads = [...new Set([...(node.operands || []), ...captures(build, node)])];
    box.weights = reads.filter((name) => weights.has(name)).map((name) => [name, weights.get(name)]);
    const to = boxes.push(box) - 1;
    for (const name of reads) connect(name, to);
    for (const [name, type] of results) {
      makers.set(name, to);
      types.set(name, type);
    }
  }
  for (const name of region.results) {
    if (!makers.has(name)) continue;
    boxes.push(terminal("output", name, types.get(name), path));
    connect(name, boxes.length - 1);
  }

  function connect(name, to) {
    const from = makers.get(name);
    if (from === undefined || from === to || seen.has(`${name}\n${to}`)) return;
    seen.add(`${name}\n${to}`);
    edges.push({ from, to, value: name, type: types.get(name) });
  }

  const used = new Set(edges.flatMap(({ from, to }) => [from, to]));
  const scope = { boxes: [], edges };
  const numbers = boxes.map((box, number) =>
    box.role !== "input" || used.has(number) || !path ? scope.boxes.push(box) - 1 : null,
  );
  for (const edge of edges) [edge.from, edge.to] = [numbers[edge.from], numbers[edge.to]];
  return Object.assign(scope, layOut(scope.boxes, edges));
}

// The values that the regions of an operator read of what is around it.
function captures(build, node) {
  if (node.captures) return node.captures;
  const own = new Set();
  const read = new Set();
  for (const region of node.op === "fused" ? [] : node.regions || []) {
    region.arguments.forEach(([name]) => own.add(name));
    for (const inner of region.nodes.map((number) => build.nodes[number])) {
      [...(inner.operands || []), ...captures(build, inner)].forEach((name) => read.add(name));
      (inner.results || []).forEach(([name]) => own.add(name));
    }
    region.results.forEach((name) => read.add(name));
  }
  return (node.captures = [...read].filter((name) => !own.has(name)));
}

function terminal(role, name, type, path) {
  const width = Math.min(WIDEST, Math.max(textWidth(name, "title"), textWidth(type, "small")) + 28);
  return { role, path: `${path}:${role} ${name}`, title: name, subtitle: type, width, height: 36, value: name };
}

// The box of an operator: closed, or open with what is in it.
function boxOf(build, number, path, opened, around) {
  const node = build.nodes[number];
  const call = build.callOfNode.get(number) || around;
  const regions = node.regions || [];
  const title = titleOf(build, node, call);
  const subtitle = subtitleOf(build, node);
  const box = { role: "operator", number, node, path, call, title, subtitle, openable: regions.length > 0 };
  box.family = familyOf(node.op === "fused" ? title : node.op);
  if (!box.openable || !opened.has(path)) {
    const width = Math.max(textWidth(title, "title") + (box.openable ? 20 : 0), textWidth(subtitle, "small"));
    return Object.assign(box, { width: Math.max(96, Math.min(WIDEST, width + 30)), height: subtitle ? 44 : 32 });
  }
  box.scopes = regions.map((region, each) => scopeOf(build, region, `${path}.${each}`, opened, call));
  const inner = sum(box.scopes.map((scope) => scope.width + INSET)) + INSET;
  box.width = Math.max(inner, Math.min(WIDEST, textWidth(title, "title") + 50));
  box.height = HEAD + INSET + Math.max(...box.scopes.map((scope) => scope.height));
  return box;
}

// A group is called after its kernel without the hash, or after its operators.
function titleOf(build, node, call) {
  if (node.op !== "fused") return node.op;
  if (call) return call.kernel.replace(/_[0-9a-f]{8}$/, "");
  return memberNames(build, node).slice(0, 4).join("_");
}

function subtitleOf(build, node) {
  if (node.op === "fused") return memberNames(build, node).join(" + ");
  if (node.regions?.length) return `${sum(node.regions.map((region) => region.nodes.length))} operators`;
  return node.origin?.[0] || "";
}

const memberNames = (build, node) =>
  node.regions[0].nodes.map((number) => build.nodes[number].op).filter((name) => name !== "constant");

// Adds the boxes and edges of a scope at a position, and of what is open in it.
function collect(scope, x, y, found) {
  const labelled = new Set();
  for (const box of scope.boxes) {
    box.x += x;
    box.y += y;
    found.boxes.push(box);
    let left = box.x + INSET;
    for (const inner of box.scopes || []) {
      collect(inner, left, box.y + HEAD, found);
      left += inner.width + INSET;
    }
  }
  const rightmost = (edge) => (edge.points ? -edge.points[0][0] : Infinity);
  for (const edge of [...scope.edges].sort((a, b) => rightmost(a) - rightmost(b))) {
    const [first, last] = [scope.boxes[edge.from], scope.boxes[edge.to]];
    const points = edge.points && edge.points.map(([px, py]) => [px + x, py + y]);
    const label = !labelled.has(edge.value) && edge.type; // one for each value, beside its first edge
    labelled.add(edge.value);
    found.edges.push({ ...edge, points, label, first, last, path: `${first.path}>${last.path}>${edge.value}` });
  }
}

