"""One page that shows a compiled model: graph, kernels, schedules, assembly, memory and time.

page = weft.view.page("model.onnx")     # or an artifact, or a function with specs; or two
page.save("page.html")                  # one file that needs nothing else
page.open()                             # and has the browser show it
page.data.builds[0].kernels             # what is shown, as records: weft.view.data
"""

from weft.view.page import Page, page
from weft.view.records import View
from weft.view.view import Run, data

__all__ = ["Page", "Run", "View", "data", "page"]
