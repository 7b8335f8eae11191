"""Plan the number and the sizes of a table's files, and the tasks that write them."""
