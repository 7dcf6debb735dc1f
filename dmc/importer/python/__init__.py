"""Side effects of Python code that export would silently lose: preserved, or refused.

* watch: records Python calls and writes
* functions: what calls of PyTorch's functions become
* applied: what an `autograd.Function` runs when it is applied
* calls: `autograd.Function`s and hooks, kept for differentiation
* gradients: gradients that a model takes itself
* ctc: a loss that data would size
* leaving: numbers that leave a step for Python
* known: tensors whose values do not depend on state or batch
* masks: masks of constants, and how many elements they choose
* numbering: tensors that hold the same
* choices: masks that choose elements, equal ones as one
* assigned: assignments to `.data`
* selected: what a number in a tensor selects
* values: what PyTorch's modules decide by values
* state: Python state other than tensors, compared and restored
* accesses: attributes that are read before they are written
* attributes: an object's own attributes
* sharing: tensors in the same memory
"""
