"""Passes on the program: where temporaries live, in which layouts
values travel, and the memory plan.
"""
