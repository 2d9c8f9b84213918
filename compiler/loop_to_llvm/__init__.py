"""loop -> LLVM IR, through llvmlite."""
