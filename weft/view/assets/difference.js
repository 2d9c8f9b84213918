// Texts as lines: with numbers, with marks on some, and as the difference that edits make.

// Applies edits {start, removed, added}, the last lines first, to a list of lines.
function edited(lines, edits) {
  const result = [...lines];
  for (const [start, removed, added] of edits) result.splice(start, removed, ...added);
  return result;
}

// Every line of both texts: {text, mark} with "removed", "added" or nothing.
function differenceLines(before, edits) {
  const lines = before.map((text) => ({ text, mark: null }));
  for (const [start, removed, added] of edits) {
    for (let n = start; n < start + removed; n += 1) lines[n].mark = "removed";
    lines.splice(start + removed, 0, ...added.map((text) => ({ text, mark: "added" })));
  }
  return lines;
}

// Lines {text, mark} with numbers; `marks` are signs in front for those who see no colors.
function codeBlock(lines, label) {
  const signs = { removed: "−", added: "+", loop: "▎" };
  const rows = lines.map(({ text, mark }, number) =>
    el(`div.line${mark ? `.${mark}` : ""}`, {}, el("span.lineno", { "aria-hidden": true }, String(number + 1)), el("span.sign", {}, signs[mark] || " "), text),
  );
  return el("div.codeblock", { tabindex: 0, role: "region", "aria-label": label }, rows);
}

const plainLines = (text) => text.split("\n").map((line) => ({ text: line, mark: null }));

