"""dm-split-stages.

* split_stages: the pass
* flow: the operations of the step, as those of one micro-batch, and what comes before and after
* assignment: the stage of each operation
* slices: a backward pass in gradients of inputs and of weights
* costs: what each stage's passes cost
* programs: what each rank of the pipeline runs, in order, with its messages
* messages: one order of all messages
* emission: the modules of the ranks
"""

from dmc.passes.scheduled.split_stages.split_stages import SplitStages

__all__ = ["SplitStages"]
