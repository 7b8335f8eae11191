"""The files of a bucketed table: which there are, which bucket each holds, and what is wrong with them."""
