"""WebAssembly: objects linked into one module."""
