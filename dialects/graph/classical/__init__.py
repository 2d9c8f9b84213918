"""Operators of classical models: ensembles of trees, strings, probabilities of classes."""
