"""Write reports.

Each format of a report has its own module.
"""
