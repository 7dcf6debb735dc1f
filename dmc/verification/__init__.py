"""Whether a compiled step computes what PyTorch eager computes, and if not, which stage changed its meaning.

`dmc.compile` runs `Verification`. `reference.py` runs eager steps of the user's own module, loss and optimizer;
`later.py` compares the steps behind the first; `stages.py` runs every form of the step, to name the first that differs.
"""

from dmc.verification.estimate import amount_of
from dmc.verification.request import Request
from dmc.verification.subject import Subject
from dmc.verification.verify import Verification

__all__ = ["Request", "Subject", "Verification", "amount_of"]
