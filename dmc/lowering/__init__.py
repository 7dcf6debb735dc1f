"""Kernels and plans → what machines execute: IREE's programs for a CPU, code of dmc's own for a GPU.

* composites: inlining of decompositions
* native_kernel: a kernel with dmc's own code, as data
* kernel_code: the code of kernels, as data
* iree: IREE's compiler in a process of its own
* kernels: bodies of kernels → IREE's code
* stream: a planned job → a program for IREE
* cuda: bodies of kernels → steps of a GPU
* implementations: the code of each kernel on a target
* calling: the calling convention of a step
* ledger_bounds: the fewest bytes that a plan may send
* ledger: what ranks send each other, and why
"""
