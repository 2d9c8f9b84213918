"""LLVM IR -> machine code: objects, artifacts, and code in this process."""
