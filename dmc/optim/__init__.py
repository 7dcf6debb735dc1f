"""The optimizers that a compiled step can contain, with the semantics of `torch.optim`'s of the same name.

* base: what an optimizer is, and parameter groups
* moments: what Adam, NAdam and RAdam share
* sgd, adam, adadelta, adafactor, adagrad, adamax, lion, muon, nadam, radam, rmsprop: one rule each
* taken_over: optimizers of `torch.optim`, with their groups and state
* resolve: an optimizer resolved for the parameters of one model

To add one: a file with its options, slots and rule, a line in `KINDS` of `taken_over`, and one here. Where an element's
update depends on others, name its composite among those of the whole in `dmc.analysis.loops.composites`; a number among
its slots is also named in `dmc.verification.optimizer`.
"""

from __future__ import annotations

from dmc.optim.adadelta import Adadelta
from dmc.optim.adafactor import Adafactor
from dmc.optim.adagrad import Adagrad
from dmc.optim.adam import Adam, AdamW
from dmc.optim.adamax import Adamax
from dmc.optim.base import FromTorch, Group, Optimizer, Over, Slot
from dmc.optim.lion import Lion
from dmc.optim.muon import Muon
from dmc.optim.nadam import NAdam
from dmc.optim.radam import RAdam
from dmc.optim.resolve import OWN_COUNT, Plan, holder, plan, plan_for
from dmc.optim.rmsprop import RMSprop
from dmc.optim.sgd import SGD
from dmc.optim.taken_over import several

__all__ = [
    "OWN_COUNT",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "FromTorch",
    "Group",
    "Lion",
    "Muon",
    "NAdam",
    "Optimizer",
    "Over",
    "Plan",
    "RAdam",
    "RMSprop",
    "Slot",
    "holder",
    "plan",
    "plan_for",
    "several",
]
