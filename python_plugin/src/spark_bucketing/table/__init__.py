"""Tables, bucketed or organized: their files, seals, bucket specs and file statistics."""
