"""Form placed → form scheduled: kernels, asynchronous movements, and the order of both.

* split_stages: what each rank of a pipeline runs, as a module of its own
* tensors: what is computed, before it becomes kernels
* form_kernels: all computation becomes kernels
* stage_inputs: inputs that the runtime copies while the step before runs
* copy_ports: copies between host and device
* async_: movements become start and wait
* bucket: equal movements share one
* select_kernels: the code of each kernel
* assign_queues: a communicator per group, and an order where two may not run concurrently
* offload: what waits in host memory for the backward pass
* keep: what the backward pass reads is kept, or computed again
* hoist_start: movements start as early as they can
* sink_wait: and are waited for as late as they can
* pace_messages: messages of a pipeline overlap with what their rank computes
* schedule: the order of issue, under a memory cap
* name_kernels: equal kernels of a pipeline's stages have one name, others different ones
"""
