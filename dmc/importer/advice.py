"""Facts and hints that errors of several parts give."""

from __future__ import annotations

NUMBER = "takes a Python number from a tensor, whose numbers only the running step knows"
DECIDES = (
    "decides by the numbers of a tensor (if, while, assert, and, torch.equal …), which only the running step knows"
)
CHOOSE = (
    "compute both and choose: torch.where(condition, a, b); to stop where a loss is not finite, call the step with "
    "check_finite=True, and to demand what must hold, torch._assert_async(condition)"
)
SIMPLER = "write this operation with simpler ones, or compute it outside the step and pass it as an input"
OWN_OPERATION = (
    "a step contains PyTorch's operations only: write it with these, or compute it outside and pass it as an input"
)
LEAVES = "lets a tensor's numbers leave the step, by"
HOST = (
    "compute with PyTorch's operations. What has to run on the host, such as a matching of predictions with targets, "
    "belongs between two calls: step.evaluate(…) of a step compiled with evaluation=…, then the match, then step(…) "
    "with its result as one more input"
)
_STAY = (
    "stay with the tensor: x / x.max() instead of x / x.max().item(), torch.sqrt instead of math.sqrt; to log a "
    "number, return it beside the loss, as an auxiliary output: (loss, {'mean': mean})"
)
FIXED_SIZE = (
    "every shape and number of rounds must be fixed: use a mask, index_select or index_copy_ with a tensor of places, "
    "and pad inputs to one size, or compile a program for each size (example=[…])"
)


def taken(is_float: bool) -> tuple[str, str]:
    """Fact and hint where Python takes a number from a tensor. One that is not whole is no size."""
    return NUMBER, _STAY if is_float else f"{FIXED_SIZE}; {_STAY}"
