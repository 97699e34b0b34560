"""What every write does to every view, and what that takes."""
