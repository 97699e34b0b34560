"""What the user wants: entities, patterns and writes, read from YAML or built in Python."""
