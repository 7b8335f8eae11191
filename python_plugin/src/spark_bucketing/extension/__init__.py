"""Build the session extension from its Scala sources, and configure Spark to load it."""
