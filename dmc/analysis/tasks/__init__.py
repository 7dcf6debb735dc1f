"""`@step` of form scheduled as a graph of kernels and movements, and when they run.

* graph: the graph
* reader: the graph of a module
* costs: nanoseconds of kernels and movements on a machine
* storages: which values share memory
* timeline: when tasks run, in an order of issue
* footprint: memory over an order
"""
