"""Decompositions, after differentiation, into operations that torch-mlir lowers well, and to linalg only.

* decompositions: the table
* nonfinite: infinities and NaN
* functions: functions that stay accurate
* angles: sine and cosine of any angle
* power: powers whose base may be negative
* scalars: Python scalars as operands
* selection: largest and smallest elements, sorting
"""
