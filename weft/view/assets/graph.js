// The graph panel: draws the boxes and edges that are in view, in a plane that scrolls.

const MARGIN = 300; // pixels around the view that are drawn too
const BAND = 512; // heights in which items are looked for

class GraphView {
  constructor(build) {
    this.build = build;
    this.opened = new Set();
    this.scale = 1;
    this.drawn = new Map();
    this.current = null;
    this.marks = () => null;
    this.plane = svg("g");
    this.canvas = svg("svg.canvas", { tabindex: 0, role: "application", "aria-label": "Graph" }, arrowHead(), this.plane);
    this.spacer = el("div.spacer", {}, this.canvas);
    this.element = el("div.scroller", {}, this.spacer);
    this.onpick = () => {};
    this.element.addEventListener("scroll", () => this.drawSoon());
    this.element.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.canvas.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.drawSoon()).observe(this.element);
  }

  show(graph) {
    this.graph = graph;
    this.relay();
  }

  // Lays out anew; the box of a path stays where it is in the window.
  relay(path = null) {
    const before = path && this.boxAt(path);
    const items = graphItems(this.build, this.graph, this.opened);
    Object.assign(this, items);
    this.bands = new Map();
    for (const box of this.boxes) this.enter(box, box.y, box.y + box.height);
    for (const edge of this.edges) {
      const ys = edge.points ? edge.points.map(([, y]) => y) : [edge.last.y - 30, edge.last.y];
      this.enter(edge, Math.min(...ys), Math.max(...ys));
    }
    this.boxes.forEach((box, order) => (box.order = order));
    const after = path && this.boxAt(path);
    this.resize();
    if (before && after) this.element.scrollBy((after.x - before.x) * this.scale, (after.y - before.y) * this.scale);
    this.clear();
    this.draw();
  }

  enter(item, top, bottom) {
    for (let band = Math.floor(top / BAND); band <= bottom / BAND; band += 1) {
      if (!this.bands.has(band)) this.bands.set(band, []);
      this.bands.get(band).push(item);
    }
  }

  resize() {
    this.spacer.style.width = `${this.width * this.scale}px`;
    this.spacer.style.height = `${this.height * this.scale}px`;
  }

  boxAt(path) {
    return this.boxes?.find((box) => box.path === path);
  }

  drawSoon() {
    this.waiting ||= requestAnimationFrame(() => {
      this.waiting = 0;
      this.draw();
    });
  }

  // Draws what has come into view and drops what has left it.
  draw() {
    const { scrollLeft, scrollTop, clientWidth, clientHeight } = this.element;
    if (!this.boxes || !clientWidth) return;
    this.canvas.setAttribute("width", clientWidth);
    this.canvas.setAttribute("height", clientHeight);
    const across = Math.max(0, (clientWidth - this.width * this.scale) / 2);
    const shift = `translate(${across - scrollLeft} ${-scrollTop}) scale(${this.scale})`;
    this.plane.setAttribute("transform", shift);
    const [top, bottom] = [scrollTop - MARGIN, scrollTop + clientHeight + MARGIN].map((y) => y / this.scale);
    const [left, right] = [scrollLeft - MARGIN, scrollLeft + clientWidth + MARGIN].map((x) => x / this.scale);
    const visible = new Set();
    for (let band = Math.floor(top / BAND); band <= bottom / BAND; band += 1)
      for (const item of this.bands.get(band) || []) if (isAcross(item, left, right)) visible.add(item);
    for (const [item, element] of this.drawn)
      if (!visible.has(item)) {
        element.remove();
        this.drawn.delete(item);
      }
    const fresh = [...visible].filter((item) => !this.drawn.has(item));
    fresh.sort((a, b) => (a.order ?? Infinity) - (b.order ?? Infinity));
    for (const item of fresh) {
      const element = item.role ? this.drawBox(item) : drawEdge(item, () => this.go(item.first.path));
      this.drawn.set(item, element);
      this.plane.append(element);
    }
    this.mark();
  }

  clear() {
    this.plane.replaceChildren();
    this.drawn.clear();
  }

  drawBox(box) {
    const { x, y, width, height, role, title, subtitle, family, openable, scopes } = box;
    const room = width - 24 - (openable ? 18 : 0);
    const lines = scopes || !subtitle ? [[title, scopes ? 19 : height / 2 + 4]] : [[title, height / 2 - 4], [subtitle, height / 2 + 11]];
    const texts = lines.map(([text, dy], number) =>
      svg(number ? "text.subtitle" : "text.title", { x: x + 13, y: y + dy }, fitted(text, number ? width - 24 : room, number ? "small" : "title")),
    );
    const group = svg(
      `g.box.${role}${scopes ? ".open" : ""}${family ? `.${family}` : ""}`,
      { "data-path": box.path, onclick: () => this.pick(box), ondblclick: () => this.toggle(box) },
      svg("rect.frame", { x, y, width, height, rx: role === "operator" ? 6 : 16 }),
      family && svg("rect.stripe", { x, y, width: 5, height, rx: 2 }),
      texts,
      openable && this.switchOf(box),
    );
    describe(group, () => this.describe(box));
    return group;
  }

  switchOf(box) {
    const [x, y] = [box.x + box.width - 14, box.y + (box.scopes ? 15 : 14)];
    const onclick = (event) => {
      event.stopPropagation();
      this.toggle(box);
    };
    return svg(
      "g.switch", { onclick, role: "button", "aria-label": box.scopes ? "close" : "open" },
      svg("circle", { cx: x, cy: y, r: 8 }),
      svg("path", { d: box.scopes ? `M${x - 4} ${y}h8` : `M${x - 4} ${y}h8M${x} ${y - 4}v8` }),
    );
  }

  describe({ title, subtitle, call, node, weights }) {
    const lines = [title, subtitle, ...(node?.results || []).map(([name, type]) => `${name}: ${type}`)];
    if (weights?.length) lines.push(`weights: ${weights.map(([name]) => name).join(", ")}`);
    const spent = call && this.build.nanoseconds(call.kernel);
    if (spent) lines.push(`${timeText(spent)} in all calls of its kernel`);
    return lines.filter(Boolean);
  }

  // Marks what is selected, what a pass changed, and where the keyboard is.
  mark() {
    for (const [item, element] of this.drawn) {
      if (!item.role) {
        element.classList.toggle("selected", item.value === selection.value);
        continue;
      }
      const origins = item.node?.origin || [];
      const kernel = item.call?.kernel ?? null;
      element.classList.toggle("selected", isSelected(kernel) || origins.includes(selection.origin) || Boolean(item.value && item.value === selection.value));
      element.classList.toggle("current", item.path === this.current);
      for (const mark of ["added", "changed", "removed"]) element.classList.toggle(mark, this.marks(item) === mark);
    }
  }

  pick(box) {
    this.current = box.path;
    const origin = box.node?.origin?.length === 1 ? box.node.origin[0] : null;
    select({ kernel: box.call?.kernel, origin, value: box.value || box.node?.results?.[0]?.[0] }, this.build);
    this.onpick(box);
    this.mark();
  }

  toggle(box) {
    if (!box.openable) return;
    if (!this.opened.delete(box.path)) this.opened.add(box.path);
    this.relay(box.path);
  }

  // Opens what is around a path, and brings its box to the middle.
  go(path) {
    const parts = path.split("/");
    for (let n = 2; n < parts.length; n += 1) this.opened.add(parts.slice(0, n).join("/").replace(/\.\d+$/, ""));
    if (!this.boxAt(path)) this.relay();
    const box = this.boxAt(path);
    if (!box) return;
    const { clientWidth, clientHeight } = this.element;
    const middle = Math.min(box.height, 200) / 2;
    this.element.scrollTo((box.x + box.width / 2) * this.scale - clientWidth / 2, (box.y + middle) * this.scale - clientHeight / 2);
    this.draw();
    this.pick(box);
  }

  zoom(factor, x = this.element.clientWidth / 2, y = this.element.clientHeight / 2) {
    const scale = Math.max(0.12, Math.min(2.5, this.scale * factor));
    const ratio = scale / this.scale;
    const [left, top] = [(this.element.scrollLeft + x) * ratio - x, (this.element.scrollTop + y) * ratio - y];
    this.scale = scale;
    this.resize();
    this.element.scrollTo(left, top);
    this.draw();
  }

  wheel(event) {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const box = this.element.getBoundingClientRect();
    this.zoom(Math.exp(-event.deltaY / 300), event.clientX - box.left, event.clientY - box.top);
  }

  // Arrows go along edges and across a layer, Enter opens and closes, + and - zoom.
  key(event) {
    const box = this.boxAt(this.current) || this.boxes[0];
    const near = {
      ArrowUp: () => this.edges.find((edge) => edge.last === box)?.first,
      ArrowDown: () => this.edges.find((edge) => edge.first === box)?.last,
      ArrowLeft: () => this.besides(box, -1),
      ArrowRight: () => this.besides(box, 1),
    }[event.key];
    if (near) {
      const next = near();
      if (next) this.go(next.path);
    } else if (event.key === "Enter") this.toggle(box);
    else if (event.key === "+" || event.key === "=") this.zoom(1.25);
    else if (event.key === "-") this.zoom(0.8);
    else if (event.key === "0") this.zoom(1 / this.scale);
    else return;
    event.preventDefault();
  }

  besides(box, direction) {
    const level = this.boxes.filter((each) => Math.abs(each.y + each.height / 2 - box.y - box.height / 2) < 12);
    level.sort((a, b) => a.x - b.x);
    return level[level.indexOf(box) + direction];
  }
}

function isAcross(item, left, right) {
  if (item.role) return item.x <= right && item.x + item.width >= left;
  const xs = item.points ? item.points.map(([x]) => x) : [item.last.x, item.last.x + item.last.width];
  return Math.min(...xs) <= right && Math.max(...xs) >= left;
}

function arrowHead() {
  const head = svg("path", { d: "M0 0L6 3L0 6z" });
  const size = { markerWidth: 8, markerHeight: 8, refX: 5.5, refY: 3, viewBox: "0 0 6 6", orient: "auto", markerUnits: "userSpaceOnUse" };
  return svg("defs", {}, svg("marker", { id: "arrow", ...size }, head));
}

// An edge with its type, or, of a long one, its end with the name of the value.
function drawEdge(edge, go) {
  if (!edge.points) return drawStub(edge, go);
  const [start, ...rest] = edge.points;
  let path = `M${start.join(" ")}`;
  let [x, y] = start;
  for (const [nx, ny] of rest) {
    if (nx === x) path += `V${ny}`;
    const bend = (ny - y) / 2;
    if (nx !== x) path += `C${x} ${y + bend} ${nx} ${ny - bend} ${nx} ${ny}`;
    [x, y] = [nx, ny];
  }
  const text = svg("text.type", { x: start[0] + Math.max(0, rest[0][0] - start[0]) / 4 + 7, y: start[1] + 17 }, edge.label || "");
  const line = svg("path.line", { d: path, "marker-end": "url(#arrow)" });
  return describe(svg("g.edge", {}, line, text), () => [`${edge.value}: ${edge.type}`]);
}

function drawStub({ last, value, type }, go) {
  const x = last.x + last.width - 22;
  const text = fitted(value, 150);
  const width = textWidth(text, "small") + 16;
  const pill = svg("rect.pill", { x: x - 10, y: last.y - 30, width, height: 18, rx: 9 });
  const line = svg("path.line", { d: `M${x} ${last.y - 12}V${last.y}`, "marker-end": "url(#arrow)" });
  const group = svg("g.edge.stub", { onclick: go }, line, pill, svg("text.type", { x: x - 2, y: last.y - 17 }, text));
  return describe(group, () => [`${value}: ${type}`, "computed far above: click to go there"]);
}

