// Elements, texts of numbers, and the tooltip. Text becomes text nodes: nothing in the data is HTML.

const SVG = "http://www.w3.org/2000/svg";

// el("button.small", {title: "..."}, "text", child): an element with classes, attributes, children.
// Attributes that start with "on" are listeners.
function el(name, attributes = {}, ...children) {
  return filled(document.createElement(name.split(".")[0]), name, attributes, children);
}

function svg(name, attributes = {}, ...children) {
  return filled(document.createElementNS(SVG, name.split(".")[0]), name, attributes, children);
}

function filled(element, name, attributes, children) {
  const classes = name.split(".").slice(1);
  if (classes.length) element.setAttribute("class", classes.join(" "));
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else if (value !== undefined && value !== null && value !== false)
      element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat().filter((child) => child || child === 0));
  return element;
}

function scaled(value, units, base) {
  let unit = 0;
  while (Math.abs(value) >= base && unit < units.length - 1) {
    value /= base;
    unit += 1;
  }
  const digits = value >= 100 || (unit === 0 && Number.isInteger(value)) ? 0 : value >= 10 ? 1 : 2;
  return `${value.toFixed(digits)} ${units[unit]}`;
}

// What is no number, as a size that varies, is shown as it is.
const bytesText = (n) => (typeof n === "number" ? scaled(n, ["B", "KB", "MB", "GB"], 1024) : n);
const timeText = (ns) => (ns === null ? "" : scaled(ns, ["ns", "µs", "ms", "s"], 1000));
const countText = (n) => (typeof n === "number" ? scaled(n, ["", "K", "M", "G", "T"], 1000).trim() : n);
const percentText = (share) => `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)} %`;
const numberText = (n) => (n === null ? "" : Number(n.toPrecision(5)).toString());

const sum = (numbers) => numbers.reduce((total, each) => total + each, 0);

// Groups of a list by what a function says of each, as a Map.
function grouped(list, key) {
  const groups = new Map();
  for (const each of list) {
    const name = key(each);
    if (!groups.has(name)) groups.set(name, []);
    groups.get(name).push(each);
  }
  return groups;
}

// What a panel without data says.
const emptyState = (title, reason) =>
  el("div.empty", {}, el("h2", {}, title), el("p", {}, reason));

const tooltip = el("div.tooltip", { role: "tooltip", hidden: true });

// Shows lines of text at the pointer while it is over an element.
function describe(element, lines) {
  element.addEventListener("pointermove", (event) => {
    const texts = lines().map((line) => el("div", {}, line));
    tooltip.replaceChildren(...texts);
    tooltip.hidden = false;
    const { innerWidth, innerHeight } = window;
    const box = tooltip.getBoundingClientRect();
    tooltip.style.left = `${Math.min(event.clientX + 14, innerWidth - box.width - 8)}px`;
    tooltip.style.top = `${Math.min(event.clientY + 14, innerHeight - box.height - 8)}px`;
  });
  element.addEventListener("pointerleave", () => (tooltip.hidden = true));
  return element;
}

