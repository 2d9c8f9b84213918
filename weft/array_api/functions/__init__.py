"""NumPy's functions, one definition each: by NumPy's name, with its parameters, out of operators of
arrays; the example in a docstring is its sample, which tests evaluate in every mode.
"""
