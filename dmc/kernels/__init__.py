"""Kernels, written by hand or generated: what each computes, how it becomes code, and what it is compared with."""
