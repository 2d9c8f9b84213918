// The roofline panel: each kernel by FLOP per byte and by what it reached, below what the machine can
// do. A circle's area is the kernel's share of the time.

function rooflinePanel(build) {
  const points = build.kernels
    .filter((kernel) => build.nanoseconds(kernel.name) && kernel.flops > 0 && kernel.bytes > 0)
    .map((kernel) => ({ kernel, x: kernel.flops / kernel.bytes, y: kernel.flops / build.nanoseconds(kernel.name), share: build.share(kernel.name) }));
  if (!build.limits || !points.length) return { element: emptyState("No roofline", build.missing.roofline || build.missing.time || "No kernel was timed that computes.") };
  const { gflops, bandwidths, threads } = build.limits;
  const marks = new Map();

  function draw(width) {
    const height = Math.max(360, Math.min(620, width * 0.42));
    const xs = points.map(({ x }) => x);
    const ys = points.map(({ y }) => y);
    const x = scaleOf(Math.min(0.05, ...xs) / 1.5, Math.max(200, ...xs) * 1.5, FRAME.left, width - FRAME.right, true);
    const y = scaleOf(Math.min(0.5, ...ys) / 1.5, Math.max(gflops, ...ys) * 2, height - FRAME.bottom, FRAME.top, true);
    const plot = plotFrame(width, height, x, y, {
      x: "FLOP per byte of all buffers", y: "GFLOP/s", title: "Roofline",
      xTick: (tick) => String(Number(tick.toPrecision(3))), yTick: (tick) => String(Number(tick.toPrecision(3))),
    });
    plot.append(...roofs(x, y, width, points));
    const labels = [...points].sort((a, b) => b.share - a.share).slice(0, 6);
    for (const point of [...points].sort((a, b) => b.share - a.share)) {
      const circle = svg("circle.point", { cx: x.at(point.x), cy: y.at(point.y), r: 4 + 30 * Math.sqrt(point.share), tabindex: 0, role: "button", class: `point ${familyOf(point.kernel.name)}`, "aria-label": point.kernel.name });
      const choose = () => select({ kernel: point.kernel.name }, build);
      circle.addEventListener("click", choose);
      circle.addEventListener("keydown", (event) => event.key === "Enter" && choose());
      describe(circle, () => pointLines(point));
      marks.set(point.kernel.name, circle);
      plot.append(circle);
    }
    for (const text of placedLabels(labels, x, y, width)) plot.append(text);
    mark();
    return plot;
  }

  // The lines of each level's bandwidth up to the multiply-adds.
  function roofs(x, y, width) {
    const left = Math.min(0.05, ...points.map((point) => point.x)) / 1.5;
    const right = width - FRAME.right;
    const slopes = bandwidths.flatMap(({ level, gbs }) => {
      const start = Math.max(left, (Math.min(0.5, ...points.map((point) => point.y)) / 1.5) / gbs);
      const angle = (Math.atan2(y.at(gflops) - y.at(start * gbs), x.at(gflops / gbs) - x.at(start)) * 180) / Math.PI;
      const [tx, ty] = [x.at(start) + 8, y.at(start * gbs) - 12];
      return [
        svg("path.roof", { d: `M${x.at(start)} ${y.at(start * gbs)}L${x.at(gflops / gbs)} ${y.at(gflops)}` }),
        svg("text.rooftext", { x: tx, y: ty, transform: `rotate(${angle} ${tx} ${ty})` }, `${level} ${gbs.toFixed(0)} GB/s`),
      ];
    });
    const first = gflops / Math.max(...bandwidths.map(({ gbs }) => gbs));
    const top = svg("path.roof", { d: `M${x.at(first)} ${y.at(gflops)}H${right}` });
    const text = `multiply-adds ${gflops.toFixed(0)} GFLOP/s, ${threads} ${threads === 1 ? "thread" : "threads"}`;
    return [...slopes, top, svg("text.rooftext.end", { x: right, y: y.at(gflops) - 7 }, text)];
  }

  function pointLines({ kernel, x, y, share }) {
    const limit = Math.min(gflops, x * Math.max(...bandwidths.map(({ gbs }) => gbs)));
    return [kernel.name, `${y.toFixed(1)} GFLOP/s, ${x.toFixed(2)} FLOP per byte`, `${percentText(share)} of all kernels' time, ${percentText(y / limit)} of the nearest roof`];
  }

  const mark = () => marks.forEach((circle, name) => circle.classList.toggle("selected", isSelected(name)));
  follow(mark);
  const { element } = responsive("plotbox", draw);
  const note = el("p.quiet", {}, "Roofs are measured on this machine. A circle's area is the kernel's share of the time, its colour the kind of work. Bytes are those of all buffers that a call is given.");
  return { element: el("div.page", {}, el("h2", {}, "Roofline"), note, familyLegend(), element) };
}

// Names beside circles, of the largest where they would cover each other.
function placedLabels(points, x, y, width) {
  const taken = [];
  const labels = points.map(({ kernel, x: px, y: py, share }) => {
    const text = kernel.name;
    const wide = textWidth(text, "small");
    const radius = 4 + 30 * Math.sqrt(share);
    const end = x.at(px) + radius + wide + 12 > width;
    const left = end ? x.at(px) - radius - 6 - wide : x.at(px) + radius + 6;
    const top = y.at(py) + 4;
    if (taken.some(([l, t, w]) => Math.abs(t - top) < 14 && l < left + wide && left < l + w)) return null;
    taken.push([left, top, wide]);
    return svg("text.pointlabel", { x: left, y: top }, text);
  });
  return labels.filter((label) => label);
}

function familyLegend() {
  const names = ["product", "reduction", "movement", "elementwise", "control"];
  return el("p.legend", {}, names.map((name) => el(`span.mark.${name}`, {}, name)));
}

