"""Why there is an Exchange or a Sort: one reason in each file, and the order in which they are asked."""
