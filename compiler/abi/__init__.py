"""The run-time ABI (docs/abi.md): what generated code, C headers and Python agree on."""
