"""What is computed, before it becomes kernels: which values, of which types and layouts, and where again.

* absorb_casts: composites read and write narrow tensors directly
* inline_composites: composites become their decompositions
* chunk_head: logits exist for a part of their rows at a time
* pad_classes: a loss's classes are padded, so that products around it are aligned
* merge_products: products with a common factor become one
* channels_last: images lie with their channels last, and convolutions are products over them
* unroll_loops: loops are unrolled
* drop_empty: empty tensors leave the dataflow
* merge_losses: a loss and the gradient of its logits are computed at once
* flatten_collectives: collectives act on dimension 0, so that pieces are contiguous
* pack_masks: masks are kept as bits
* recompute: cheap values are rematerialised by the backward pass, and by each reader
* pack_concats: what is concatenated is computed where the result lies
* share_panels: a matrix that many products of few rows read lies in panels
"""
