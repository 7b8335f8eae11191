"""The generated pages of the reference, one module per page."""
