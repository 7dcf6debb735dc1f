"""Bodies of kernels → steps of a GPU with code of dmc's own, of libraries, or of IREE.

* products: bodies that cuBLASLt computes
* attention: attention that cuDNN may compute
* by: what the plan wants a body computed by
* native_steps: recipes → steps with machine code
* native: bodies for which dmc has an implementation
* buffers: what code may assume about buffers
* device_code: the kernels of a job as CUDA code
* candidates: all candidates, to be timed
"""
