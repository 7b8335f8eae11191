"""Tables whose files are of a wanted number and size: which files a partition gets, and where its rows are written."""
