"""LLVM IR -> LLVM IR: the few passes that code which is already vectorised, tiled and hoisted still
gains from.
"""

from __future__ import annotations

from llvmlite import binding


def optimize(
    module: binding.ModuleRef, machine: binding.TargetMachine, *, cleans: bool = True
) -> None:
    """Inlines the vector functions, turns local arrays into registers and `cleans` up; changes the
    module in place.
    """
    tuning = binding.create_pipeline_tuning_options(speed_level=0)
    builder = binding.create_pass_builder(machine, tuning)
    passes = binding.create_new_module_pass_manager()
    passes.add_always_inliner_pass()
    passes.add_sroa_pass()
    if cleans:
        passes.add_instruction_combine_pass()
        passes.add_simplify_cfg_pass()
        passes.add_new_gvn_pass()
        passes.add_dead_store_elimination_pass()
        passes.add_instruction_combine_pass()
        passes.add_simplify_cfg_pass()
    passes.run(module, builder)
