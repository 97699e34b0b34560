"""The problem as a binary program, and its least value, proven."""
