"""Rewriting and reporting code of several passes.

* starts: the starts of a block
* motion: code motion: operations that may move freely, distances, and the new order
* kernel_functions: new functions for kernels to run, deduplicated
* programs: `dmc.program.Program` → `dm.program`
* reshapes: builders of reshapes
* report: tables on stderr
"""
