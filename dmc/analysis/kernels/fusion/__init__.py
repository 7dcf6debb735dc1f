"""Which operations share a kernel.

* rules: what may be in one kernel
* epilogues: what is better not computed behind a product
* greedy: which are merged: by bytes saved, the most first
"""
