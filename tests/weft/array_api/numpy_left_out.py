"""What of NumPy is not in the table, with the reasons."""

_REASONS: dict[str, tuple[str, ...]] = {
    "dtypes that depend on elements": ("emath", "vectorize"),
    "no native code has this dtype": ("clongdouble", "complex256", "float128", "longdouble"),
    "texts, dates, records and Python objects": (
        "asmatrix", "bmat", "busday_count", "busday_offset", "busdaycalendar", "bytes_", "char",
        "character", "datetime64", "datetime_as_string", "datetime_data", "flexible", "is_busday",
        "isnat", "ma", "matrix", "object_", "poly1d", "polynomial", "rec", "recarray", "record",
        "str_", "strings", "timedelta64", "void",
    ),
    "functions of Python objects": ("frompyfunc",),
    "files and bytes: NumPy reads and writes its arrays": (
        "frombuffer", "fromfile", "fromiter", "fromregex", "fromstring", "genfromtxt", "load",
        "loadtxt", "memmap", "save", "savetxt", "savez", "savez_compressed",
    ),
    "NumPy's memory and machinery": (
        "ScalarType", "broadcast", "core", "ctypeslib", "dtypes", "einsum_path", "f2py", "flatiter",
        "format_float_positional", "format_float_scientific", "get_include", "getbufsize",
        "geterrcall", "info", "isfortran", "little_endian", "may_share_memory", "mintypecode",
        "ndenumerate", "nditer", "nested_iters", "require", "row_stack", "sctypeDict", "setbufsize",
        "seterrcall", "shares_memory", "show_config", "show_runtime", "test", "testing",
        "typecodes", "typing", "ufunc",
    ),
    "weft.random has explicit keys": ("random",),
    "whether it is a copy depends on NumPy's memory": ("asfortranarray",),
    "whether it raises depends on elements": ("asarray_chkfinite",),
    "what linalg and fft have beside functions": (
        "linalg.LinAlgError", "linalg.test", "fft.test",
    ),
}  # fmt: skip

LEFT_OUT = {name: reason for reason, names in _REASONS.items() for name in names}

PARAMETERS_LEFT_OUT = {
    **{
        f"{name}.{each}": "taken by position alone, as in the array API standard"
        for name, parameters in {
            "astype": ("x",), "cholesky": ("a",), "det": ("a",), "inv": ("a",), "slogdet": ("a",),
            "matrix_power": ("a",), "solve": ("a", "b"), "matmul": ("x1", "x2"),
            "empty_like": ("prototype",),
        }.items()
        for each in parameters
    },
    "astype.device": "there is one device",
    "cumulative_sum.out": "the standard's function has none",
    "cumulative_prod.out": "the standard's function has none",
}  # fmt: skip
