"""All of it put together: the problem that is to be solved, without what no cheapest design needs."""
