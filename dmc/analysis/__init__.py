"""Read-only facts about a module, as frozen data, for passes. In pipeline order:

* requests: the user's requests, as attributes of the module
* amounts: the work of operations, before kernels
* times: how long that takes on a machine
* loops: operations as loops: what may be split
* sharding: a placement for every value
* ranks: replicated values, and traffic between ranks
* labels: readable names of values, gradients and storages
* kernels: which computations are fused, and the cost of kernels
* tasks: kernels and movements as a task graph, timed
* storage: the memory that values need, and which values share it
* memory: addresses, and the contents of every byte
* commands: form planned as data, and the events between its lanes
* dataflow: a module's dataflow, for translation validation
"""
