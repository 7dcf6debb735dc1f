"""Rewriting and reporting code of several passes.

* step: forward and backward pass, and what the one leaves to the other
* starts: the starts of a block
* motion: code motion: operations that may move freely, distances, and the new order
* unread: operations that nobody reads
* operands_first: a block in order again
* kernel_functions: new functions for kernels to run, deduplicated
* programs: `dmc.program.Program` → `dm.program`
* smaller_functions: functions on parts of their tensors, or on larger ones
* opened: composites replaced by their decompositions
* local_ops: attributes of operations and types of functions, for one rank's part
* splats: splats in other shapes
* reshapes: builders of reshapes
* loops: builders of `linalg.generic`, and copies on other operands
* slices: builders of slices and concatenations
* second_copies: second copies of values, for some of their readers
* report: tables on stderr
* trials: copies of a module, to try other passes on
"""
