"""Products of bytes: what quantised networks compute."""
