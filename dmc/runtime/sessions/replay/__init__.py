"""A planned step of one rank on a GPU, as one CUDA graph.

* issue: a program on the streams of a device
* stamps: the times of its commands
* progress: how far a step is
* staging: the inputs of a call, copied while the call before runs
* state: the state in device memory and in pinned host memory
* replayed: a program with its inputs, outputs and calls in flight
* session: the session
* tuner: times the candidates of kernels
"""
