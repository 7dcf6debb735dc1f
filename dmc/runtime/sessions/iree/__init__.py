"""A planned step in IREE's runtime, all ranks in one process.

* errors: exceptions of IREE's bindings
* timeline: the order of work on a device
* device: a device, and copies to and from its memory
* calls: calls of a step, queued in order
* planned_memory: arenas, and where in them tensors are
* planned: the session
"""
