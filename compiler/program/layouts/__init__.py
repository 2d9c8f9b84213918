"""In which layouts values travel between kernels."""
