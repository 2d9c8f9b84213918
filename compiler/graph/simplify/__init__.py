"""Passes that leave less to compute."""
