"""Generate the pages of the reference, with one module per page."""
