"""The command line: one file per command, each calling the public Python API and nothing below it."""
