"""What the bodies of kernels are changed to before IREE takes them: passes, in the order in which they run.

On a CPU all of them run, elsewhere those behind `pack_panels`. `constants` is shared.

* concatenate_by_loops: few equal parts are joined by one loop
* split_deep_products: products that are too deep become chains
* keep_rounding: bf16 rounds where it is read
* overflow_powers: powers that overflow are infinite before anything is added
* keep_small_numbers: exponentials and logarithms of subnormal numbers
* widen_sums: sums over whole operands, in f64
* pack_panels: right operands of large products in strips
* read_constant_terms: terms of a sum depend on memory
* isolate_transposes: a transposed matrix is made once
* separate_transposes: a loop with several results is not transposed
* constants: numbers that scalars are
"""

from dmc.lowering.kernels.rewrites.concatenate_by_loops import ConcatenateByLoops
from dmc.lowering.kernels.rewrites.isolate_transposes import IsolateTransposes
from dmc.lowering.kernels.rewrites.keep_rounding import KeepRounding
from dmc.lowering.kernels.rewrites.keep_small_numbers import KeepSmallNumbers
from dmc.lowering.kernels.rewrites.overflow_powers import OverflowPowers
from dmc.lowering.kernels.rewrites.pack_panels import PackPanels
from dmc.lowering.kernels.rewrites.read_constant_terms import ReadConstantTerms
from dmc.lowering.kernels.rewrites.separate_transposes import SeparateTransposes
from dmc.lowering.kernels.rewrites.split_deep_products import SplitDeepProducts
from dmc.lowering.kernels.rewrites.widen_sums import WidenSums
from dmc.rewriting.passes import Pass
from dmc.target import CPU, Target


def rewrites(target: Target, without_panels: frozenset[str] = frozenset()) -> tuple[Pass, ...]:
    """The passes for kernels of a target. without_panels: kernels whose products are left as they are."""
    for_cpu = (
        ConcatenateByLoops(),
        SplitDeepProducts(),
        KeepRounding(),
        OverflowPowers(),
        KeepSmallNumbers(),
        WidenSums(),
        PackPanels(without=tuple(sorted(without_panels))),
    )
    for_all = (ReadConstantTerms(), IsolateTransposes(), SeparateTransposes())
    return for_cpu + for_all if target.name == CPU.name else for_all
