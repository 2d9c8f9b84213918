"""Operators of linear algebra that are no products: transforms and factors."""
