"""Declare the config keys of the materializations, and validate the config of a model."""
