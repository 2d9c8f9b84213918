"""`vmap` beside what one would write by hand."""
