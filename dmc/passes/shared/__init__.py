"""What several passes write and report with.

* starts: the starts of a block
* motion: code motion: what may move without cost, how far, and the new order
* kernel_functions: new functions for kernels to run, equal ones once
* programs: `dmc.program.Program` → `dm.program`
* reshapes: reshapes, built
* report: tables on stderr
"""
