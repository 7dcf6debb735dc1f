"""`@step` of form scheduled as a graph of kernels and movements, and when they run.

* graph: the graph
* reader: the graph of a module
* costs: times of kernels and movements on a machine, in nanoseconds
* storages: which values share memory
* timeline: when tasks run, for an order of issue
* footprint: memory over an order
"""
