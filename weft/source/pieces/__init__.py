"""Graph breaks: a function of which pieces are compiled and some statements stay Python's."""
