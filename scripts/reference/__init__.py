"""The generated pages of the reference, one module each."""
