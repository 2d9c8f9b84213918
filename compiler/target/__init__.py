"""What the code is generated for: the targets that weft knows by name; `native` is found by
`compiler.machine.codegen.host`.
"""

from compiler.target.arm import ARM_TARGETS
from compiler.target.riscv import RISCV_TARGETS
from compiler.target.target import Target
from compiler.target.wasm import WASM32
from compiler.target.x86 import X86_TARGETS

TARGETS: tuple[Target, ...] = (*X86_TARGETS, *ARM_TARGETS, *RISCV_TARGETS, WASM32)
