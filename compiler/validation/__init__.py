"""Proofs that what was decided about memory keeps the meaning of kernels and programs.

Nothing here shares code with the passes that decide: both would share their faults.
"""
