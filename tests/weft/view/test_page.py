"""The page in a browser: each panel shows what the data says, and a click marks all of them."""

import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.support.browser import Browser
from tests.weft.view.conftest import LARGE, MAKERS, WATCHED
from weft.view import Page, View
from weft.view.records import Build, Kernel, OutputDifference, Parting

Pages = Callable[[str], tuple[Page, Path]]

PANELS = ("graph", "kernels", "roofline", "memory", "time", "values")
HOSTILE = "</script><img src=http://example.org/x onerror=\"document.title='taken'\"><!--"


def opened(browser: Browser, pages: Pages, name: str, panel: str) -> Build:
    """Opens a page at a panel; returns its build."""
    made, path = pages(name)
    browser.open(path, fragment=f"#panel={panel}")
    return made.data.builds[0]


def finished(kernel: Kernel) -> list[str]:
    """The lines of a kernel behind all steps."""
    assert kernel.texts is not None
    lines = kernel.texts.naive.splitlines()
    for step in kernel.texts.steps:
        for edit in step.edits:
            lines[edit.start : edit.start + edit.removed] = edit.added
    return lines


@pytest.mark.parametrize("name", [*MAKERS, *(LARGE if "WEFT_STRESS" in os.environ else ())])
def test_no_request_leaves_the_page_and_no_script_fails(browser: Browser, pages: Pages, name: str):
    opened(browser, pages, name, "graph")
    for panel in PANELS:
        browser.click(f"[data-panel={panel}]")
        assert browser.texts("main h2, main svg"), panel
    assert browser.errors == []
    assert browser.requests == [pages(name)[1].as_uri()]


def test_the_graph_has_a_box_for_each_kernel_and_opens_it(browser: Browser, pages: Pages):
    build = opened(browser, pages, "conv", "graph")
    last = build.graphs[build.stages[-1].graph]
    operators = [build.nodes[n] for n in last.nodes if build.nodes[n].op != "constant"]
    assert len(browser.texts("g.box.operator")) == len(operators)
    types = {value.type for node in operators for value in node.results}
    assert types <= set(browser.texts("g.edge text"))
    browser.click("g.switch")
    (first,) = build.nodes[last.nodes[-1]].regions or operators[0].regions
    inner = [build.nodes[n].op for n in first.nodes if build.nodes[n].op != "constant"]
    titles = browser.texts("g.box.operator text.title")
    assert all(name in titles for name in inner)


def test_an_operator_tells_why_it_is_a_kernel_of_its_own(browser: Browser, pages: Pages):
    build = opened(browser, pages, "conv", "graph")
    browser.click("g.box.operator", "average_pool")
    (details,) = browser.texts("aside.details")
    assert "both are more than elementwise operators and movements" in details
    call = next(each for each in build.calls if each.kernel.startswith("average_pool"))
    assert call.kernel in details
    assert call.origin[0] in details


def test_a_pass_shows_what_it_changed(browser: Browser, pages: Pages):
    build = opened(browser, pages, "conv", "graph")
    browser.click("ol.passes button", "fuse+")
    fuse = next(each for each in build.stages if each.name == "weft-fuse")
    (details,) = browser.texts("aside.details")
    assert f"{fuse.before} → {fuse.after} operators" in details
    added = browser.run("document.querySelectorAll('g.box.added, g.box.changed').length")
    assert added >= fuse.changes["graph.fused"]
    browser.click("div.toggle button", "before")
    assert "tanh" in browser.texts("g.box.operator text.title")


def test_search_finds_an_operator_and_goes_there(browser: Browser, pages: Pages):
    opened(browser, pages, "conv", "graph")
    browser.run("document.activeElement.blur()")
    browser.run("document.body.focus()")
    browser.key("/")
    field = "document.activeElement"
    assert browser.run(f"{field}.type") == "search"
    browser.run(f"{field}.value = '/fc2'; {field}.dispatchEvent(new Event('input'))")
    browser.click("ul.results button")
    assert "/fc2" in browser.texts("div.selection")[0]
    assert browser.run("document.querySelectorAll('g.box.selected').length") >= 1


def test_a_kernel_shows_each_step_down_to_assembly(browser: Browser, pages: Pages):
    build = opened(browser, pages, "conv", "kernels")
    kernel = next(each for each in build.kernels if each.name.startswith("gemm_tanh"))
    browser.click("tr.choice", kernel.name)
    assert kernel.texts is not None
    steps = browser.texts("ol.steps button")
    assert steps[1:-1] == [each.call for each in kernel.texts.steps]
    shown = browser.texts("div.codeblock .line")
    assert [re.sub(r"^\d+ ", "", line) for line in shown] == finished(kernel)
    number = next(n for n, each in enumerate(kernel.texts.steps) if each.edits)
    browser.run(f"document.querySelectorAll('ol.steps button')[{number + 1}].click()")
    added = sum(len(edit.added) for edit in kernel.texts.steps[number].edits)
    assert len(browser.texts("div.codeblock .added")) == added
    browser.click("[data-view=plan]")
    assert kernel.texts.plans[0].chosen.plan in browser.texts("tr.chosen td")
    browser.click("[data-view=assembly]")
    marked = {n for loop in kernel.loops for n in range(loop.first, loop.last + 1)}
    assert len(browser.texts("div.codeblock .loop")) == len(marked)
    browser.click("[data-view=ir]")
    assert any("define" in line for line in browser.texts("div.codeblock .line"))
    in_loop = browser.texts("div.codeblock .loop")
    assert any("fmul" in line or "llvm.fma" in line for line in in_loop)
    assert "br i1" in in_loop[-1]


def test_memory_has_a_bar_for_each_buffer(browser: Browser, pages: Pages):
    build = opened(browser, pages, "conv", "memory")
    assert len(browser.texts("rect.buffer")) == len(build.memory.buffers)
    in_place = [each for each in build.memory.buffers if each.in_place_of]
    assert len(browser.texts("rect.inplace")) == len(in_place)
    rows = browser.texts("table[aria-label=Weights] tbody tr td:first-child")
    assert sorted(rows) == sorted(each.name for each in build.memory.weights)


def test_a_click_marks_the_kernel_in_all_panels(browser: Browser, pages: Pages):
    build = opened(browser, pages, "conv", "memory")
    label = "pool1_AveragePool_output"
    browser.click(f"rect[aria-label={label}]")
    call = next(each for each in build.calls if each.origin == ("/pool1/AveragePool",))
    assert call.kernel in browser.texts("div.selection")[0]
    browser.click("[data-panel=kernels]")
    assert browser.texts("main tr[aria-selected=true] td:first-child") == [call.kernel]
    browser.click("[data-panel=graph]")
    selected = browser.texts("g.box.selected text.title")
    assert selected == ["average_pool"]
    assert f"kernel={call.kernel}" in browser.run("location.hash")


def test_time_and_roofline_show_what_was_measured(browser: Browser, pages: Pages):
    build = opened(browser, pages, "conv", "time")
    assert build.time is not None
    assert len(browser.texts("rect.span")) == len(build.time.spans)
    rows = browser.texts("table[aria-label='Time by kernel'] tbody td:first-child")
    assert rows == [each.name for each in build.time.by_kernel]
    browser.click("[data-panel=roofline]")
    computing = {each.name for each in build.time.by_kernel} & {
        each.name for each in build.kernels if each.flops and each.bytes
    }
    assert len(browser.texts("circle.point")) == len(computing)


def test_values_have_histograms(browser: Browser, pages: Pages):
    build = opened(browser, pages, "conv", "values")
    assert browser.texts(".card h3") == [each.name for each in build.values] == list(WATCHED)
    assert len(browser.texts("rect.bin")) == sum(len(each.counts) for each in build.values)


def test_regions_of_control_flow_are_boxes_in_boxes(browser: Browser, pages: Pages):
    opened(browser, pages, "loops", "graph")
    assert "for" in " ".join(browser.texts("g.box.control text.title"))
    browser.click("button", "open all")
    browser.click("button", "open all")
    assert "if" in browser.texts("g.box.operator text.title")
    assert browser.run("document.querySelectorAll('g.box.open.control').length") >= 1


def test_panels_and_lists_work_by_keyboard(browser: Browser, pages: Pages):
    opened(browser, pages, "transformer", "graph")
    chosen = "document.querySelector('.panels [aria-selected=true]').dataset.panel"
    for number, panel in enumerate(PANELS, 1):
        browser.run("document.activeElement.blur()")
        browser.key(str(number))
        assert browser.run(chosen) == panel
    browser.key("1")
    browser.run("document.querySelector('svg.canvas').focus()")
    browser.key("ArrowDown")
    browser.key("Enter")
    assert browser.run("document.querySelectorAll('g.box.current').length") == 1
    browser.key("Escape")
    assert browser.texts("div.selection") == []


def test_the_theme_follows_the_system_and_can_be_changed(browser: Browser, pages: Pages):
    _, path = pages("conv")
    theme = "document.documentElement.dataset.theme"
    browser.open(path, dark=True)
    assert browser.run(theme) == "dark"
    browser.open(path)
    assert browser.run(theme) == "light"
    browser.key("d")
    assert browser.run(theme) == "dark"
    browser.key("d")


def test_hostile_names_are_text(browser: Browser, pages: Pages, tmp_path: Path):
    build = pages("conv")[0].data.builds[0]
    kernels = (replace(build.kernels[0], name=HOSTILE), *build.kernels[1:])
    nodes = tuple(replace(each, op=HOSTILE, origin=(HOSTILE,)) for each in build.nodes)
    hostile = replace(build, name=HOSTILE, file=HOSTILE, kernels=kernels, nodes=nodes)
    path = Page(View(1, (hostile,))).save(tmp_path / "hostile.html")
    browser.open(path)
    for panel in PANELS:
        browser.click(f"[data-panel={panel}]")
    assert HOSTILE in browser.run("document.title")
    assert browser.run("document.querySelectorAll('img').length") == 0
    assert browser.texts("h1") == [HOSTILE]
    assert browser.errors == []
    assert browser.requests == [path.as_uri()]


def test_two_builds_show_where_they_differ(browser: Browser, pages: Pages, tmp_path: Path):
    build = pages("conv")[0].data.builds[0]
    other = replace(build, name="other", kernels=build.kernels[1:])
    parting = Parting((OutputDifference("probabilities", 0.5, 0.25),), "x", "/conv1/Conv")
    path = Page(View(1, (build, other), parting)).save(tmp_path / "both.html")
    browser.open(path)
    (text,) = browser.texts("main > div:not([hidden])")
    assert "They part at x, which /conv1/Conv computes." in text
    assert "differs by 0.5 at most" in text
    first = browser.texts("table[aria-label='Kernels of both builds'] tbody tr")
    assert sum("only in A" in row for row in first) == 1
    assert browser.errors == []
