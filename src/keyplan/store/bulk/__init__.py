"""What is done to a whole database: apply, load, verify."""
