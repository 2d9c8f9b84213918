"""LLVM IR -> object code, and object code run in this process."""
