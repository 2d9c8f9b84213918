"""Python programs with real control flow, which give the same results plain and compiled."""
