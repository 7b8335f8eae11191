"""Read and maintain bucketed and organized tables: files, seals, bucket specs and file statistics."""
