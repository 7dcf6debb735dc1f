"""Kernels written by hand: what each implements, how it becomes code, and a float64 reference beside it."""
