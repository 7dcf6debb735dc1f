"""Form placed → form scheduled: kernels, movements that are started and waited for, and the order of both.

* absorb_casts: composites read and give narrow tensors themselves
* inline_composites: composites become their decompositions
* pad_classes: the classes of a loss are padded, so that products around it are aligned
* unroll_loops: loops are written out
* drop_empty: tensors without elements leave the dataflow
* flatten_collectives: collectives act on dimension 0, so that pieces are contiguous
* recompute: cheap values are computed by each reader
* form_kernels: all computation becomes kernels
* copy_ports: copies between host and device
* async_: movements are started and waited for
* bucket: equal movements share one
* select_kernels: which code runs each kernel
* assign_queues: a communicator for each group, and an order where two may not run at once
* hoist_start: movements start as early as they can
* sink_wait: and are waited for as late as they can be
* schedule: the order of issue, under a memory cap
* split_all_reduce: on request: reduce-scatter instead of all-reduce, where it pays
"""
