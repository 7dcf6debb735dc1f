"""Form imported → form placed: every value gets a placement on the mesh, and `@step` becomes the program of one rank.

* isolate_draws: the index of a random draw is not fused into its kernel
* pad_uneven: sizes that ranks do not divide are padded
* propagate_sharding: the placement of every value
* partition: `@step` for one rank, with a reshard at each change of placement
* lower_reshard: reshards become the cheapest collectives
* fold_collectives: pairs of collectives become one that moves fewer bytes
* narrow_collectives: values move in the narrowest type they have
* exchange_sums: large sums over ranks become movements that copy engines make, and additions
* gather_again: what is gathered is not kept between two passes, but gathered for each
"""
