"""Looking at values inside a compiled graph: watches and traps."""
