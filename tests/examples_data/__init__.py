"""What the tests of the examples need for any model: a handful of rows, and calls that make sense for them."""
