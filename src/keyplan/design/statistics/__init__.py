"""Rows, distinct values, fan-out and bytes of anything in a model, derived in one place."""
