// `dm`, in the order of the reference page.

include "symbols.td"
include "collectives.td"
include "point_to_point.td"
include "transfers.td"
include "async.td"
include "buckets.td"
include "compute.td"
include "plan.td"
