"""Whether a compiled step computes what PyTorch eager computes, and which stage changed the meaning where it does not.

`Verification` is what `dmc.compile` runs. `reference.py` takes the user's own module, loss and optimizer through one
step of eager; `stages.py` runs every form of the step, to name the first that computes something else.
"""

from dmc.verification.estimate import amount_of
from dmc.verification.request import Request
from dmc.verification.verify import Verification

__all__ = ["Request", "Verification", "amount_of"]
