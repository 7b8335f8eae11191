"""Write reports, with one module per format."""
