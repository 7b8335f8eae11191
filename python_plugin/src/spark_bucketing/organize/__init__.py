"""Plan the number and size of a table's files, and the tasks that write them."""
