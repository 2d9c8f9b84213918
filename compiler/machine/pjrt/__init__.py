"""The plugin of JAX as native code: the functions of the PJRT C API."""
