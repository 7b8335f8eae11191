"""What was found, in one format per module."""
