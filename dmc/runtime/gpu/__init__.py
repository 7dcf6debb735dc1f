"""One CUDA device, through CuPy and NVIDIA's libraries.

* failures: failures, which only show in later calls
* tensor_maps: arrays as a copy engine sees them
* captured_graph: a captured stream as one CUDA graph
* peer_memory: memory of other processes' GPUs on the host
* cublaslt: matrix products
* cudnn: attention
* libraries: NVIDIA's libraries, opened when first needed
* cuda_streams: streams, memory and graphs
"""
