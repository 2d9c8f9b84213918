// Axes, ticks and frames that the plots have in common.

const FRAME = { left: 76, right: 24, top: 20, bottom: 48 };

// A scale from values to pixels: {at, ticks}.
function scaleOf(least, most, from, to, logarithmic = false) {
  const turn = logarithmic ? Math.log10 : (value) => value;
  const [low, high] = [turn(least), turn(most) === turn(least) ? turn(least) + 1 : turn(most)];
  const at = (value) => from + ((turn(value) - low) / (high - low)) * (to - from);
  return { at, ticks: logarithmic ? decades(low, high) : evenTicks(low, high) };
}

// Ticks at multiples of a power of two, for bytes.
function binaryTicks(high) {
  const step = 2 ** Math.ceil(Math.log2(high / 8));
  return Array.from({ length: Math.floor(high / step) + 1 }, (_, n) => n * step);
}

function evenTicks(low, high) {
  const rough = (high - low) / 6;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((each) => each * power >= rough);
  const ticks = [];
  for (let tick = Math.ceil(low / step) * step; tick <= high + step / 1e6; tick += step) ticks.push(tick);
  return ticks;
}

function decades(low, high) {
  const ticks = [];
  for (let power = Math.ceil(low - 1e-9); power <= high + 1e-9; power += 1) ticks.push(10 ** power);
  return ticks;
}

// An SVG of a size with both axes and grid lines; the plot's own marks are appended to it.
function plotFrame(width, height, x, y, labels) {
  const bottom = height - FRAME.bottom;
  const right = width - FRAME.right;
  const lines = [
    ...x.ticks.map((tick) => svg("g.tick", {}, svg("path", { d: `M${x.at(tick)} ${FRAME.top}V${bottom}` }), svg("text.middle", { x: x.at(tick), y: bottom + 17 }, labels.xTick(tick)))),
    ...y.ticks.map((tick) => svg("g.tick", {}, svg("path", { d: `M${FRAME.left} ${y.at(tick)}H${right}` }), svg("text.end", { x: FRAME.left - 8, y: y.at(tick) + 4 }, labels.yTick(tick)))),
  ];
  const names = [
    svg("text.axis.middle", { x: (FRAME.left + right) / 2, y: height - 8 }, labels.x),
    svg("text.axis", { x: FRAME.left - 62, y: 12 }, labels.y),
  ];
  return svg("svg.plot", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": labels.title }, lines, names);
}

// An element that draws itself as wide as it is, again when that changes.
function responsive(className, draw) {
  const element = el(`div.${className}`);
  let width = 0;
  const redraw = () => width > 0 && element.replaceChildren(draw(width, element.clientHeight));
  new ResizeObserver(() => {
    if (element.clientWidth === width) return;
    width = element.clientWidth;
    redraw();
  }).observe(element);
  return { element, redraw };
}

