"""Passes that no stage runs, for pipelines that name them.

* split_all_reduce: reduce-scatter instead of all-reduce, where it pays
"""
