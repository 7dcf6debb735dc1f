"""dm-lower-to-plan.

* lower_to_plan: the pass
* rank_programs: the program of the first rank, and what differs on others, without events
"""

from dmc.passes.planned.lower_to_plan.lower_to_plan import LowerToPlan

__all__ = ["LowerToPlan"]
