"""Bodies of kernels → IREE's code.

* rewrites: what bodies are changed to before IREE takes them
* separate: kernels whose operations are compiled one by one
* order: the order in which a dispatch reads and writes
* accesses: how a dispatch accesses its buffers
* kernel_reader: IREE's program → the code of kernels
* known_kernels: code that this process has compiled before
* panel_loops: products of operands in panels, as loops
* kernels: all of it, in several ways until one works
"""
