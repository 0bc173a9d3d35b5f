"""One module per file format; each turns files into the tables that `assemble` checks and joins."""
