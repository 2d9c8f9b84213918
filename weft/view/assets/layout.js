// Boxes and edges -> positions, in layers from the top down. Every step takes time about in
// proportion to the boxes and edges, so that 5,000 operators are laid out in a fraction of a second.

const LAYER_GAP = 46;
const BOX_GAP = 26;
const LONGEST_EDGE = 12; // layers; longer edges are drawn as stubs with the name of the value

// `boxes` are {width, height}, in an order in which edges {from, to} go forward. Sets x, y (of the
// upper left corner) of boxes, and `points` of edges, or `stub` of those that are too long.
function layOut(boxes, edges) {
  const ranks = rankBoxes(boxes, edges);
  const layers = [];
  const place = (item) => (layers[item.rank] ||= []).push(item);
  const items = boxes.map((box, number) => ({
    box, rank: ranks[number], width: box.width, height: box.height, up: [], down: [], weight: 1,
  }));
  items.forEach(place);
  for (const edge of edges) edge.chain = chainOf(edge, items, place);
  for (let sweep = 0; sweep < (boxes.length > 1500 ? 4 : 10); sweep += 1) orderLayers(layers, sweep % 2);
  placeAcross(layers);
  let y = 0;
  for (const layer of layers) {
    const height = Math.max(0, ...layer.map((item) => item.height));
    for (const item of layer) Object.assign(item, { y: y + (height - item.height) / 2, top: y, bottom: y + height });
    y += height + LAYER_GAP;
  }
  const left = layers.flat().reduce((least, item) => Math.min(least, item.x - item.width / 2), 0);
  for (const item of items) Object.assign(item.box, { x: item.x - item.width / 2 - left, y: item.y });
  for (const edge of edges) edge.points = edge.chain && route(edge, items, left);
  const right = layers.flat().reduce((most, item) => Math.max(most, item.x + item.width / 2 - left), 0);
  return { width: right, height: Math.max(0, y - LAYER_GAP) };
}

// The longest path to each box; what only feeds one layer comes right above it.
function rankBoxes(boxes, edges) {
  const ranks = new Array(boxes.length).fill(0);
  const fed = new Set();
  for (const { from, to } of edges) {
    ranks[to] = Math.max(ranks[to], ranks[from] + 1);
    fed.add(to);
  }
  const lowest = new Map();
  for (const { from, to } of edges)
    if (!fed.has(from)) lowest.set(from, Math.min(lowest.get(from) ?? Infinity, ranks[to] - 1));
  for (const [from, rank] of lowest) ranks[from] = rank;
  return ranks;
}

// The items that an edge passes: its ends, and a narrow one in each layer between; null for a stub.
function chainOf(edge, items, place) {
  const [first, last] = [items[edge.from], items[edge.to]];
  if (last.rank - first.rank > LONGEST_EDGE) return null;
  const chain = [first];
  for (let rank = first.rank + 1; rank < last.rank; rank += 1) {
    const item = { box: {}, rank, width: 8, height: 0, up: [], down: [], weight: 6 };
    chain.push(item);
    place(item);
  }
  chain.push(last);
  for (let n = 1; n < chain.length; n += 1) {
    chain[n - 1].down.push(chain[n]);
    chain[n].up.push(chain[n - 1]);
  }
  return chain;
}

// Orders each layer by the mean position of neighbors in the layer before it, or behind it.
function orderLayers(layers, upward) {
  const side = upward ? "down" : "up";
  for (const layer of layers) layer.forEach((item, number) => (item.order = number));
  const mean = (item) => sum(item[side].map((each) => each.order)) / item[side].length;
  for (const layer of upward ? [...layers].reverse() : layers) {
    for (const item of layer) item.key = item[side].length ? mean(item) : item.order;
    layer.sort((a, b) => a.key - b.key || a.order - b.order);
    layer.forEach((item, number) => (item.order = number));
  }
}

// Horizontal positions: each item as near to the mean of its neighbors as its layer's order allows.
function placeAcross(layers) {
  for (const layer of layers) {
    let x = 0;
    for (const item of layer) {
      item.x = x + item.width / 2;
      x += item.width + BOX_GAP;
    }
  }
  const sweeps = layers.length > 1500 ? 6 : 30;
  for (let sweep = 0; sweep < sweeps; sweep += 1) {
    const sides = sweep > 1 ? ["up", "down"] : [sweep ? "down" : "up"];
    for (const layer of sweep % 2 ? [...layers].reverse() : layers) settle(layer, sides);
  }
}

// Least squares under the order of a layer, by merging neighbors that would overlap.
function settle(layer, sides) {
  const runs = [];
  let offset = 0;
  for (const [number, item] of layer.entries()) {
    if (number) offset += (layer[number - 1].width + item.width) / 2 + BOX_GAP;
    const near = sides.flatMap((side) => item[side]);
    const wanted = near.length ? sum(near.map((each) => each.x)) / near.length : item.x;
    item.offset = offset;
    runs.push({ at: wanted - offset, weight: item.weight, items: [item] });
    while (runs.length > 1 && runs.at(-2).at > runs.at(-1).at) {
      const [last, before] = [runs.pop(), runs.pop()];
      const weight = last.weight + before.weight;
      const at = (last.at * last.weight + before.at * before.weight) / weight;
      runs.push({ at, weight, items: before.items.concat(last.items) });
    }
  }
  for (const run of runs) for (const item of run.items) item.x = run.at + item.offset;
}

// The points of an edge: from the lower side of a box to the upper side of another, apart from the
// other edges there.
function route(edge, items, left) {
  const port = (item, others, other) => {
    const place = others.indexOf(other) - (others.length - 1) / 2;
    return item.x - left + place * Math.min(16, (0.7 * item.width) / Math.max(1, others.length));
  };
  const byPlace = (list) => (list.sorted ||= [...list].sort((a, b) => a.x - b.x));
  const { chain } = edge;
  return chain.flatMap((item, number) => {
    if (number === 0) return [[port(item, byPlace(item.down), chain[1]), item.y + item.height]];
    if (number === chain.length - 1) return [[port(item, byPlace(item.up), chain.at(-2)), item.y]];
    return [[item.x - left, item.top], [item.x - left, item.bottom]];
  });
}

