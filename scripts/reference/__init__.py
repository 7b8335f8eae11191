"""Generate the pages of the reference.

Each page has its own module.
"""
