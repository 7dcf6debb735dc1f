"""What passes ask about a module: frozen data, nothing changed. In the order of the pipeline:

* requests: what the user asks for, as attributes of the module
* loops: operations as loops: what of them may be split
* sharding: a placement for every value
* ranks: what ranks hold alike, and what they send each other
* labels: what people call values, gradients and storages
* kernels: which computations become one kernel, and what it costs
* tasks: kernels and movements as a graph in time
* storage: the memory that values need, and which values share it
* memory: where everything lies, and what every byte holds
* commands: form planned as data, and the events between its lanes
* dataflow: what a module computes, for the proof that no pass changed it
"""
