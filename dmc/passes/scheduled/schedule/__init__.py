"""dm-schedule.

* schedule: the pass
* list_scheduling: orders of the kernels
* picks: the next kernel, within available memory
* prefetch: the order of fully sharded data parallelism, to compare with
* movements: where movements start and end between the kernels
* bounds: the gaps between kernels where they may be
* lives: live ranges of storages under an order
* room: memory in use, while the order changes
* report: what `reasons` prints
* trial: whether a step finds an order under a cap
"""

from dmc.passes.scheduled.schedule.schedule import Schedule
from dmc.passes.scheduled.schedule.trial import SPREAD, fits

__all__ = ["SPREAD", "Schedule", "fits"]
