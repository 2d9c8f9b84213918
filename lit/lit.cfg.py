"""`lit lit/` runs a golden test in processes; tests/test_lit.py runs it in that of pytest."""

import sys
from pathlib import Path

import lit.formats

config.name = "weft"  # noqa: F821  lit hands `config` in
config.test_format = lit.formats.ShTest(execute_external=False)  # noqa: F821
config.suffixes = [".mlir"]  # noqa: F821
config.test_source_root = str(Path(__file__).parent)  # noqa: F821
config.test_exec_root = str(Path(__file__).parents[1] / "build" / "lit")  # noqa: F821

config.environment["PYTHONPATH"] = str(Path(__file__).parents[1])  # noqa: F821  this checkout

scripts = Path(sys.executable).parent
for tool in ("weft-opt", "filecheck"):
    config.substitutions.append((rf"\b{tool}\b", str(scripts / tool)))  # noqa: F821
