"""Form placed → form scheduled: kernels, asynchronous movements, and the order of both.

* absorb_casts: composites read and write narrow tensors directly
* inline_composites: composites become their decompositions
* chunk_head: logits exist for a part of their rows at a time
* pad_classes: a loss's classes are padded, so that products around it are aligned
* merge_products: products with a common factor become one
* unroll_loops: loops are unrolled
* drop_empty: empty tensors leave the dataflow
* flatten_collectives: collectives act on dimension 0, so that pieces are contiguous
* recompute: cheap values are rematerialised by the backward pass, and by each reader
* form_kernels: all computation becomes kernels
* copy_ports: copies between host and device
* async_: movements become start and wait
* bucket: equal movements share one
* select_kernels: the code of each kernel
* assign_queues: a communicator per group, and an order where two may not run concurrently
* offload: what waits in host memory for the backward pass
* keep: what the backward pass reads is kept, or computed again
* hoist_start: movements start as early as they can
* sink_wait: and are waited for as late as they can
* schedule: the order of issue, under a memory cap
"""
