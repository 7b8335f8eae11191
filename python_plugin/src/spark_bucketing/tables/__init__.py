"""Read and maintain bucketed and organized tables: their files, seals, bucket specs and file statistics."""
