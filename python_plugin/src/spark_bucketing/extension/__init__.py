"""The session extension: its Scala sources, how they become a jar, and the settings that switch it on."""
