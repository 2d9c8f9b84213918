"""What the code is generated for: the targets that weft knows by name; `native` is found by
`weft.compiler.machine.codegen.host`.
"""

from weft.compiler.target.arm import ARM_TARGETS
from weft.compiler.target.riscv import RISCV_TARGETS
from weft.compiler.target.target import Target
from weft.compiler.target.wasm import WASM32
from weft.compiler.target.x86 import X86_TARGETS
from weft.compiler.target.x86_cpus import X86_CPUS

TARGETS: tuple[Target, ...] = (
    *X86_TARGETS, *X86_CPUS, *ARM_TARGETS, *RISCV_TARGETS, WASM32,
)  # fmt: skip
