"""dm-schedule.

* schedule: the pass
* list_scheduling: orders of the kernels
* picks: the next kernel, within the memory there is
* prefetch: the order of fully sharded data parallelism, to compare with
* movements: where movements start and end between the kernels
* bounds: between which kernels they may stand
* lives: when storages live under an order
* room: how much memory is taken, while the order changes
* report: what `reasons` prints
"""

from dmc.passes.scheduled.schedule.schedule import Schedule

__all__ = ["Schedule"]
