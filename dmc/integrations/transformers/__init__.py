"""`Trainer` of `transformers`, whose steps are compiled: a script imports `DmcTrainer as Trainer` from here.

* trainer: the class
* steps: its compiled step, for the shapes of batches that were seen
* expected: the shapes that will come
* updates: the micro-batches of one update
* objective: the loss as `Trainer` computes it, as a module
* fixed_length: batches of few lengths
"""

from dmc.integrations.transformers.fixed_length import FixedLength
from dmc.integrations.transformers.trainer import DmcTrainer

__all__ = ["DmcTrainer", "FixedLength"]
