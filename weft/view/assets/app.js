// The page: its head, the tabs, light and dark, and keys.

const PANELS = [
  ...(BUILDS.length > 1 ? [["builds", "Two builds", () => buildsPanel(BUILDS)]] : []),
  ["graph", "Graph", graphPanel], ["kernels", "Kernels", kernelPanel], ["roofline", "Roofline", rooflinePanel],
  ["memory", "Memory", memoryPanel], ["time", "Time", timePanel], ["values", "Values", valuesPanel],
];
const HELP = [
  ["1 … 7", "panels, from the left"], ["/", "find an operator"], ["Escape", "select nothing"], ["d", "light or dark"],
  ["Arrows", "in the graph along edges, in lists up and down"], ["Enter", "choose; open or close a box of the graph"], ["+ − 0", "zoom the graph"], ["?", "these keys"],
];

const shown = { panel: null, build: 0 };
const made = new Map();
const currentPanel = () => shown.panel;

function showPanel(name) {
  shown.panel = PANELS.some(([each]) => each === name) ? name : PANELS[0][0];
  const key = `${shown.panel} ${shown.panel === "builds" ? "" : shown.build}`;
  const [, , make] = PANELS.find(([each]) => each === shown.panel);
  if (!made.has(key)) {
    made.set(key, make(BUILDS[shown.build]));
    stage.append(made.get(key).element);
  }
  for (const [each, { element }] of made) element.hidden = each !== key;
  for (const button of tabs.children) button.setAttribute("aria-selected", String(button.dataset.panel === shown.panel));
  made.get(key).focus?.();
  writeAddress();
}

function setTheme(theme) {
  document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem("weft-theme", theme);
  } catch {
    // A page of a file may have no storage: the choice then lasts as long as the page.
  }
}

function startTheme() {
  let kept = null;
  try {
    kept = localStorage.getItem("weft-theme");
  } catch {
    // As above.
  }
  const dark = window.matchMedia("(prefers-color-scheme: dark)").matches;
  document.documentElement.dataset.theme = readAddress().theme || kept || (dark ? "dark" : "light");
}

const switchTheme = () => setTheme(document.documentElement.dataset.theme === "dark" ? "light" : "dark");

function onKey(event) {
  if (event.target.matches("input") || event.ctrlKey || event.metaKey || event.altKey) return;
  const panel = PANELS[Number(event.key) - 1];
  if (panel) showPanel(panel[0]);
  else if (event.key === "/") {
    showPanel("graph");
    [...document.querySelectorAll("input[type=search]")].find((field) => field.offsetParent)?.focus();
  } else if (event.key === "Escape") select({});
  else if (event.key === "d") switchTheme();
  else if (event.key === "?") help.showModal();
  else return;
  event.preventDefault();
}

const tensorText = ({ name, dtype, dims }) => `${name}: ${dtype}[${dims.join(", ")}]`;

function pageHead() {
  const build = BUILDS[0];
  const names = BUILDS.map((each) => each.name).join(" and ");
  const about = [build.time && `${timeText(build.time.median_ns)} a call on ${build.time.threads} ${build.time.threads === 1 ? "thread" : "threads"}`, `${build.cpu}, ${build.triple.split("-")[0]}`, `weft ${build.weft}`].filter(Boolean).join(" · ");
  const signature = `(${build.inputs.map(tensorText).join(", ")}) → (${build.outputs.map(tensorText).join(", ")})`;
  const choice = BUILDS.length > 1 && el("select", { "aria-label": "Build", onchange: (event) => chooseBuild(Number(event.target.value)) }, BUILDS.map((each, number) => el("option", { value: number }, `${"AB"[number]}: ${each.file || each.name}`)));
  const buttons = [el("button", { title: "Light or dark (d)", onclick: switchTheme, "aria-label": "Light or dark" }, "◐"), el("button", { title: "Keys (?)", onclick: () => help.showModal() }, "?")];
  return el("header.head", {}, el("h1", {}, names), el("p.signature", { title: signature }, signature), el("p.about", {}, about), choice, ...buttons);
}

function chooseBuild(number) {
  shown.build = number;
  showPanel(shown.panel === "builds" ? "graph" : shown.panel);
}

const help = el("dialog", { "aria-label": "Keys" }, el("h2", {}, "Keys"), el("dl", {}, HELP.flatMap(([key, text]) => [el("dt", {}, el("kbd", {}, key)), el("dd", {}, text)])), el("form", { method: "dialog" }, el("button", {}, "close")));
const tabs = el("nav.tabs.panels", { role: "tablist" }, PANELS.map(([name, title]) => el("button.tab", { role: "tab", "data-panel": name, onclick: () => showPanel(name) }, title)));
const stage = el("main");
const { panel: firstPanel, kernel: firstKernel, origin: firstOrigin, value: firstValue } = readAddress();

startTheme();
document.body.append(pageHead(), tabs, selectionBar(), stage, tooltip, help);
document.addEventListener("keydown", onKey);
Object.assign(selection, { kernel: firstKernel || null, origin: firstOrigin || null, value: firstValue || null });
showPanel(firstPanel);
if (firstKernel || firstOrigin || firstValue) select({ ...selection });

