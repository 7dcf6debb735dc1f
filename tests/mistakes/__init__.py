"""Mistakes of users, and what the errors must say.

* table: what a mistake is, and all of them
* numbers: Python that looks at the numbers of a tensor
* code: Python that a compiled step would lose, or that does not run
* tensors: types, shapes, devices and memory of tensors
* steps: arguments of `dmc.compile`, and what a compiled step is asked for
"""
