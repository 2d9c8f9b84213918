"""What operators are made of: types, facets, broadcasting, evaluation."""
