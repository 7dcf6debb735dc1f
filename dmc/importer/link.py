"""Links gradients and update, imported as two functions, into `@step`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dmc._mlir import arith, func, ir, linalg, passmanager, scf, tensor
from dmc.program.signature import Signature, TensorSpec

GRADIENTS, UPDATE, FORWARD, STEP = "gradients", "update", "forward", "step"


@dataclass(frozen=True)
class Order:
    """The names of the arguments and results of `@gradients` and `@update`, in their order.

    counter: the state that the step counts with. draws: added to the seed.
    gradients: (inputs…, seed, counter, batch…) -> (loss, aux…, written…, gradients of trained…)
    update: (trained…, gradients…, slots…, old written…, new written…, step, loss, lr, guard) ->
    (trained…, slots…, written without trained…, step, finite)
    """

    inputs: tuple[str, ...]
    written: tuple[str, ...]
    trained: tuple[str, ...]
    slots: tuple[str, ...]
    aux: int
    counter: str
    draws: int = 0


def link(module: ir.Module, signature: Signature, order: Order, accumulate: int) -> None:
    """Adds `@step` with the calling convention of `signature` to `module` and moves the two functions into it.

    With `accumulate` > 1 the batch is cut along dimension 0 into that many micro-batches, run in a loop; gradients,
    loss and auxiliary outputs are averaged, and state that they write is carried from one to the next.
    """
    functions = _functions(module)
    results = [*(spec for spec in signature.state if spec.mutated), *signature.outputs]
    block, values = _declared(module, signature, results)
    with ir.InsertionPoint(block), ir.Location.unknown():
        batch = [values[spec.name] for spec in signature.batch]
        body = _Body(functions, order, values, accumulate)
        func.ReturnOp(body.build(batch, [spec.name for spec in results]))
    _simplify(module)


def link_forward(module: ir.Module, signature: Signature, inputs: Sequence[str]) -> None:
    """Adds `@step` with the calling convention of `signature`, around `@forward`, and moves that into it.

    @forward: (inputs…, seed, counter, batch…) -> (loss, aux…).
    """
    functions = _functions(module)
    block, values = _declared(module, signature, signature.outputs)
    with ir.InsertionPoint(block), ir.Location.unknown():
        counter = next(spec.name for spec in signature.state if spec.role == "counter")
        body = _Body(functions, Order(tuple(inputs), (), (), (), len(signature.outputs) - 1, counter), values, 1)
        given = [*(values[name] for name in inputs), values["seed"], values[counter]]
        func.ReturnOp(body.call(FORWARD, [*given, *(values[spec.name] for spec in signature.batch)]))
    _simplify(module)


def _functions(module: ir.Module) -> dict[str, ir.OpView]:
    return {ir.StringAttr(op.attributes["sym_name"]).value: op for op in module.body.operations}


def _declared(
    module: ir.Module, signature: Signature, results: Sequence[TensorSpec]
) -> tuple[ir.Block, dict[str, ir.Value]]:
    """`@step`, still empty: its block, and its arguments by name."""
    arguments = [*signature.state, *signature.controls, *signature.batch]
    with ir.InsertionPoint(module.body), ir.Location.unknown():
        types = ([_type(s.dtype, s.shape) for s in arguments], [_type(s.dtype, s.shape) for s in results])
        step = func.FuncOp(STEP, types)
        step.arg_attrs = ir.ArrayAttr.get(
            [_attributes(spec.name, getattr(spec, "role", role)) for spec, role in _with_roles(signature)]
        )
        step.attributes["res_attrs"] = ir.ArrayAttr.get([_attributes(spec.name, None) for spec in results])
        block = step.add_entry_block()
    return block, {spec.name: value for spec, value in zip(arguments, block.arguments, strict=True)}


def _simplify(module: ir.Module) -> None:
    pipeline = "builtin.module(symbol-dce,canonicalize,cse)"
    passmanager.PassManager.parse(pipeline, module.context).run(module.operation)


@dataclass(frozen=True)
class _Body:
    functions: dict[str, ir.OpView]
    order: Order
    values: dict[str, ir.Value]
    accumulate: int

    def build(self, batch: Sequence[ir.Value], results: Sequence[str]) -> list[ir.Value]:
        """Emits the body of `@step`; returns the values named by `results`."""
        heads = 1 + self.order.aux
        outputs = self._mean_of_micro_batches(batch) if self.accumulate > 1 else self._once(batch)
        loss, *aux = outputs[:heads]
        written = outputs[heads : heads + len(self.order.written)]
        gradients = outputs[heads + len(self.order.written) :]
        # The optimizer updates parameters as the forward pass leaves them.
        left = {**self.values, **dict(zip(self.order.written, written, strict=True))}
        own = [left[name] for name in self.order.trained]
        slots = [self.values[name] for name in self.order.slots]
        old = [self.values[name] for name in self.order.written]
        scalars = [self.counter, loss, self.values["lr"], self.values["guard"]]
        updated = self.call(UPDATE, [*own, *gradients, *slots, *old, *written, *scalars])
        kept = [name for name in self.order.written if name not in self.order.trained]
        names = [*self.order.trained, *self.order.slots, *kept, self.order.counter, "finite"]
        named = dict(zip(names, updated, strict=True)) | {"loss": loss}
        named |= {f"aux{index}": value for index, value in enumerate(aux)}
        return [named[name] for name in results]

    @property
    def counter(self) -> ir.Value:
        """The number of steps done."""
        return self.values[self.order.counter]

    def _seed(self) -> ir.Value:
        seed = self.values["seed"]
        if not self.order.draws:
            return seed
        i64 = ir.IntegerType.get_signless(64)
        added = ir.DenseElementsAttr.get_splat(seed.type, ir.IntegerAttr.get(i64, self.order.draws))
        return arith.AddIOp(seed, arith.ConstantOp(seed.type, added).result).result

    def _once(self, batch: Sequence[ir.Value]) -> list[ir.Value]:
        inputs = [self.values[name] for name in self.order.inputs]
        return self.call(GRADIENTS, [*inputs, self._seed(), self.counter, *batch])

    def _mean_of_micro_batches(self, batch: Sequence[ir.Value]) -> list[ir.Value]:
        function = self.functions[GRADIENTS]
        assert isinstance(function, func.FuncOp)
        result_types = list(function.type.results)
        parts = function.type.inputs[len(self.order.inputs) + 2 :]
        heads = 1 + self.order.aux
        carried = range(heads, heads + len(self.order.written))
        written = iter(self.order.written)
        seed = self._seed()
        starts = [self.values[next(written)] if i in carried else _zeros(t) for i, t in enumerate(result_types)]
        first, last, stride = (arith.ConstantOp(ir.IndexType.get(), n).result for n in (0, self.accumulate, 1))
        loop = scf.ForOp(first, last, stride, starts)
        with ir.InsertionPoint(loop.body):
            sums = list(loop.inner_iter_args)
            state = {**self.values, **dict(zip(self.order.written, [sums[i] for i in carried], strict=True))}
            counter = _counter(self.counter, loop.induction_variable, self.accumulate)
            slices = [_slice(whole, part, loop.induction_variable) for whole, part in zip(batch, parts, strict=True)]
            inputs = [state[name] for name in self.order.inputs]
            new = self.call(GRADIENTS, [*inputs, seed, counter, *slices])
            scf.YieldOp([v if i in carried else _add(sums[i], v) for i, v in enumerate(new)])
        totals = list(loop.results)
        return [v if i in carried else _scale(v, 1.0 / self.accumulate) for i, v in enumerate(totals)]

    def call(self, name: str, arguments: Sequence[ir.Value]) -> list[ir.Value]:
        """Inlines the body of a function at the insertion point, on `arguments`; returns its results and erases it."""
        function = self.functions.pop(name)
        block = function.operation.regions[0].blocks[0]
        for parameter, argument in zip(block.arguments, arguments, strict=True):
            parameter.replace_all_uses_with(argument)
        # Operations can only be moved next to another, so a temporary one marks the place.
        anchor = arith.ConstantOp(ir.IndexType.get(), 0)
        *body, terminator = list(block.operations)
        for op in body:
            op.operation.move_before(anchor.operation)
        results = list(terminator.operation.operands)
        anchor.operation.erase()
        function.operation.erase()
        return results


def _with_roles(signature: Signature) -> list[tuple[object, str]]:
    controls = [(spec, "control") for spec in signature.controls]
    return [*((spec, spec.role) for spec in signature.state), *controls, *((spec, "batch") for spec in signature.batch)]


def _attributes(name: str, role: str | None) -> ir.DictAttr:
    attributes: dict[str, ir.Attribute] = {"dm.name": ir.StringAttr.get(name)}
    if role is not None:
        attributes["dm.role"] = ir.StringAttr.get(role)
    return ir.DictAttr.get(attributes)


def _type(dtype: str, shape: Sequence[int]) -> ir.Type:
    # Builtin integers carry no sign.
    return ir.RankedTensorType.get(list(shape), ir.Type.parse(dtype.removeprefix("u")))


def _zeros(tensor_type: ir.Type) -> ir.Value:
    ranked = ir.RankedTensorType(tensor_type)
    zero = arith.ConstantOp(ranked.element_type, 0.0).result
    return linalg.fill(zero, outs=[tensor.empty(ranked.shape, ranked.element_type)])


def _slice(whole: ir.Value, part_type: ir.Type, index: ir.Value) -> ir.Value:
    """Rows index·n … of `whole`, n = the rows of `part_type`: row `index` of `whole` viewed as [micro-batches, n,
    …]."""
    part, total = ir.RankedTensorType(part_type), ir.RankedTensorType(whole.type)
    rank = part.rank
    shape = [total.shape[0] // part.shape[0], *part.shape]
    groups = [[0, 1], *([dim + 1] for dim in range(1, rank))]
    apart = tensor.ExpandShapeOp(
        ir.RankedTensorType.get(shape, part.element_type), whole, groups, [], static_output_shape=shape
    )
    dynamic = ir.ShapedType.get_dynamic_stride_or_offset()
    return tensor.ExtractSliceOp(
        part,
        apart.result,
        [index],
        [],
        [],
        static_offsets=[dynamic, *[0] * rank],
        static_sizes=[1, *part.shape],
        static_strides=[1] * (rank + 1),
    ).result


def _counter(step: ir.Value, micro: ir.Value, accumulate: int) -> ir.Value:
    """step · accumulate + micro: every micro-batch draws its own random numbers.

    As tensors: scalars would be computed on the host, which takes no part in a step.
    """
    i64 = ir.IntegerType.get_signless(64)
    times = ir.DenseElementsAttr.get_splat(step.type, ir.IntegerAttr.get(i64, accumulate))
    scaled = arith.MulIOp(step, arith.ConstantOp(step.type, times).result).result
    number = tensor.FromElementsOp(step.type, [arith.IndexCastOp(i64, micro).result]).result
    return arith.AddIOp(scaled, number).result


def _add(total: ir.Value, value: ir.Value) -> ir.Value:
    return arith.AddFOp(total, value).result


def _scale(value: ir.Value, factor: float) -> ir.Value:
    ranked = ir.RankedTensorType(value.type)
    scalar = ir.FloatAttr.get(ranked.element_type, factor)
    splat = arith.ConstantOp(ranked, ir.DenseElementsAttr.get_splat(ranked, scalar)).result
    return arith.MulFOp(value, splat).result
