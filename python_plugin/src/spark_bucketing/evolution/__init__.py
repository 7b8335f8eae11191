"""Partitions of one table with bucket specs of their own: which there are, whether they hold, and how to mend them."""
