"""The program -> LLVM IR: calls of kernels, checks of sizes, growable buffers."""
