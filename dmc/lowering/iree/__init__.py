"""IREE's compiler, in a process of its own, and what may go wrong in it.

* cpu_features: what a processor must have
* equal_results: results that IREE mixes up
* compiler: its calls
* isolation: which kernels take it down
* failures: the error for a kernel without code
"""
