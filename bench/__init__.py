"""Benchmarks: one script per claim; each measures its peers in the same run."""
