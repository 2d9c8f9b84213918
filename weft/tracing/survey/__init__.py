"""What a function of a program depends on, as one hash: a program out of the cache has it."""
