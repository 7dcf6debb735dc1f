"""The memory that values of form scheduled need, and which of them share it, before addresses are assigned.

* spaces: the memory space of each argument
* fixed: addresses of state that another program has decided
* pieces: views: results that alias a piece of their operand
* storages: the storages of `@step`
* pointwise: results that may be computed in place of operands
* allocation: storages with fixed offsets between them
* state: in-place updates of state
* sharing: which storages share memory
"""
