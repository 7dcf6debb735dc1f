"""Attributes that models, losses and optimizers of PyTorch have, and those of a step do not: what takes their place."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from dmc.errors import ForeignAttributeError

_WHOLE = "a call of the step is the whole of it, forward, backward and update: leave this line out"
_MODE = (
    "a step trains in the mode in which its model was compiled; compiled with evaluation=True, it has "
    "step.evaluate(…) for eval mode"
)
_STATE = (
    "step.state_dict()['model'] has the parameters by name; model.load_state_dict(step.state_dict()['model']) puts "
    "them into the model, and the gradients exist only inside the step"
)
_DEVICE = "dmc.compile(…, target=…) and dmc.load(…, device=…) decide where a step runs; batches are copied there"
_OUTPUTS = "call the step; for the model's outputs, compile with evaluation=lambda output, targets: (loss, output)"
STEP = {
    **dict.fromkeys(("eval", "train", "training"), _MODE),
    **dict.fromkeys(("parameters", "named_parameters", "named_buffers", "buffers", "modules", "grad"), _STATE),
    **dict.fromkeys(("to", "cuda", "cpu", "device"), _DEVICE),
    **dict.fromkeys(("zero_grad", "backward"), _WHOLE),
    "forward": _OUTPUTS,
    "step": "call the step itself: loss = step(inputs, targets)",
    "param_groups": "pass the rate to each call: step(…, lr=…), a number, one for each group, or a scheduler",
}
LOSS = {
    "backward": _WHOLE,
    "detach": "it is a number, and no part of a graph: loss.item(), or float(loss)",
    **dict.fromkeys(("cpu", "cuda", "to"), "it is a number: loss.item(), or float(loss)"),
    **dict.fromkeys(("grad", "requires_grad", "grad_fn"), _STATE),
}


class NotOfTorch:
    """What stands where PyTorch has something else. WAYS: attributes of that, and what is done instead."""

    WAYS: ClassVar[Mapping[str, str]]

    if not TYPE_CHECKING:  # Or every name would be an attribute.

        def __getattr__(self, name: str) -> Any:
            kind = type(self).__name__
            if name not in self.WAYS:
                raise AttributeError(f"'{kind}' object has no attribute '{name}'")
            raise ForeignAttributeError(f"{kind}.{name}", "does not exist: a step is no nn.Module", self.WAYS[name])
