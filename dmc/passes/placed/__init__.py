"""Form imported → form placed: every value gets a place on the mesh, and `@step` becomes what one rank computes.

* isolate_draws: random draws are not fused with the numbers of their draws
* propagate_sharding: how every value lies on the mesh
* partition: `@step` for one rank, with a reshard wherever a value moves
* lower_reshard: reshards become the cheapest collectives
* fold_collectives: pairs of collectives become one that moves fewer bytes
"""
