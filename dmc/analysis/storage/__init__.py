"""The memory that the values of form scheduled need, and which of them share it, before it has a place.

* pieces: views: results that are a piece of their operand's memory
* storages: the storages of `@step`
* pointwise: which results may take the memory of which operands
* allocation: storages with fixed offsets between them
* state: new values of state take the place of the old ones
* sharing: which storages share one place
"""
