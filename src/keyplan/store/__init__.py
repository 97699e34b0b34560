"""A live connection that runs a design: plans, writes, load, apply and verify as generators, driven sync or async."""
