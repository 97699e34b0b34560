"""What patterns and writes ask for, to a fixed point."""
