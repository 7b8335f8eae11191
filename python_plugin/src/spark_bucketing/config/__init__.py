"""Declare the config keys of the materializations, and validate a model's config."""
