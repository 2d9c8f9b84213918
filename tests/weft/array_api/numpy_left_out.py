"""What of NumPy is not in the table, with the reasons."""

LEFT_OUT: dict[str, str] = {}
PARAMETERS_LEFT_OUT: dict[str, str] = {}
