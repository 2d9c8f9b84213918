// What is selected, in all panels at once: a kernel, the node of the model or the line of the program
// that it comes from, and a value. The address of the page holds it, so that it can be passed on.

const selection = { kernel: null, origin: null, value: null };
const followers = [];

// Calls a panel's function whenever the selection changes.
function follow(update) {
  followers.push(update);
}

// Selects a kernel, origin or value; a kernel that is not given follows from the origin.
function select(choice, build = BUILDS[0]) {
  const { origin = null, value = null } = choice;
  let { kernel = null } = choice;
  if (!kernel && origin) kernel = [...(build.kernelsOfOrigin.get(origin) || [null])][0];
  Object.assign(selection, { kernel, origin, value });
  for (const update of followers) update();
  writeAddress();
}

const isSelected = (kernel) => kernel !== null && selection.kernel === kernel;

function readAddress() {
  const fields = new URLSearchParams(location.hash.slice(1));
  return Object.fromEntries(fields);
}

function writeAddress() {
  const chosen = Object.entries({ panel: currentPanel(), ...selection }).filter(([, text]) => text);
  history.replaceState(null, "", `#${new URLSearchParams(chosen)}`);
}

// The bar below the tabs: what is selected, and a way to let go of it.
function selectionBar() {
  const bar = el("div.selection", { role: "status" });
  const chip = (label, text, go) =>
    text && el("button.chip", { title: text, onclick: go }, el("b", {}, label), ` ${text}`);
  follow(() => {
    const { kernel, origin, value } = selection;
    const origins = kernel ? BUILDS[0].origins(kernel) : [];
    const rest = origins.filter((each) => each !== origin).length;
    const node = origin || (origins.length === 1 ? origins[0] : null);
    const more = !origin && rest > 1 ? `${rest} nodes: ${origins.slice(0, 2).join(", ")} …` : node;
    bar.hidden = !(kernel || origin || value);
    bar.replaceChildren(
      ...[
        chip("kernel", kernel, () => showPanel("kernels")),
        chip("from", more, () => showPanel("graph")),
        chip("value", value, () => showPanel("graph")),
        el("button.plain", { title: "Select nothing (Escape)", onclick: () => select({}) }, "clear"),
      ].filter(Boolean),
    );
  });
  bar.hidden = true;
  return bar;
}

