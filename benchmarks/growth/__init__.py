"""How compile time grows with the graph."""
