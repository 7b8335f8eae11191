"""Reports, with one module per format."""
