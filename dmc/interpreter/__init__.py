"""Runs static programs of ranks in numpy, for tests: every interleaving that the events allow may be met."""
