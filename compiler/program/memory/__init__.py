"""Where buffers are stored: live intervals, the arena, and results in place of operands."""
