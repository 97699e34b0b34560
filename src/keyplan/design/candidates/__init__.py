"""The views that may answer needs, each with its statistics, in the forms that an engine can keep."""
