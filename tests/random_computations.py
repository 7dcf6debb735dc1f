"""Random computations on tensors, for random steps."""

from __future__ import annotations

from collections.abc import Callable

from tests.random_text import RandomText, generic, kind


def elementwise(step: RandomText) -> None:
    name, shape = step.pick()
    op = ("addf", "subf", "mulf", "maximumf", "negf", "divf", "tanh")[step.choose(7)]
    if op == "negf":
        step.emit(f"arith.negf {name} : {kind(shape)}", shape)
    elif op == "tanh":
        step.emit(f"math.tanh {name} : {kind(shape)}", shape)
    elif op == "divf":
        step.emit(f"arith.divf {name}, {step.splat(shape, '4.0')} : {kind(shape)}", shape)
    else:
        pair = [name, step.like(shape)]
        first = step.choose(2)
        step.emit(f"arith.{op} {pair[first]}, {pair[1 - first]} : {kind(shape)}", shape)


BODIES = (
    ["%y = arith.addf %i0, %i1 : f64"],
    ["%y = arith.mulf %i0, %i1 : f64"],
    ["%y = arith.subf %i1, %i0 : f64"],
    ["%c = arith.constant 0.5 : f64", "%h = arith.mulf %i0, %c : f64", "%y = arith.addf %i1, %h : f64"],
    ["%h = math.tanh %i0 : f64", "%y = arith.mulf %h, %i1 : f64"],
    ["%c = arith.cmpf ogt, %i0, %i1 : f64", "%y = arith.select %c, %i0, %i1 : f64"],
    ["%h = arith.addf %i0, %i1 : f64", "%y = arith.addf %h, %o : f64"],
    ["%y = arith.addf %o, %i0 : f64"],
)


def broadcasting(step: RandomText) -> None:
    """Elementwise, where one operand has some of the dimensions, and the result another order of them."""
    name, shape = step.pick()
    places = step.some(len(shape))
    small = tuple(shape[i] for i in places)
    order = step.order(len(shape))
    result = tuple(shape[i] for i in order)
    body = BODIES[step.choose(len(BODIES))]
    out = step.like(result) if "%o" in "".join(body) else step.empty(result)
    pair = (name, shape, range(len(shape))), (step.like(small), small, places)
    generic(step, pair, (out, result, order), [True] * len(shape), body)


def reading_places(step: RandomText) -> None:
    """A body that knows where it is: what it adds, or masks, depends on the place."""
    name, shape = step.pick(1)
    dim, other = step.choose(len(shape)), step.choose(len(shape))
    body = [f"%p = linalg.index {dim} : index", f"%q = linalg.index {other} : index"]
    if step.choose(2):
        body += ["%c = arith.cmpi sge, %p, %q : index", "%z = arith.constant 0.0 : f64"]
        body += ["%y = arith.select %c, %i0, %z : f64"]
    else:
        body += ["%n = arith.index_cast %p : index to i64", "%f = arith.sitofp %n : i64 to f64"]
        body += ["%y = arith.mulf %i0, %f : f64"]
    every = range(len(shape))
    generic(step, [(name, shape, every)], (step.empty(shape), shape, every), [True] * len(shape), body)


def gathering(step: RandomText) -> None:
    """Reads another tensor, from the body, at places counted from its end."""
    table, shape = step.pick(1)
    dim = step.choose(len(shape))
    places, body = list[str](), list[str]()
    for i, size in enumerate(shape):
        body.append(f"%p{i} = linalg.index {i} : index")
        places.append(f"%p{i}")
        if i == dim:
            body += [f"%last = arith.constant {size - 1} : index", f"%back = arith.subi %last, %p{i} : index"]
            places[i] = "%back"
    body += [f"%e = tensor.extract {table}[{', '.join(places)}] : {kind(shape)}", "%y = arith.addf %e, %i0 : f64"]
    every = range(len(shape))
    source = (step.like(shape), shape, every)
    generic(step, [source], (step.empty(shape), shape, every), [True] * len(shape), body)


def reduction(step: RandomText) -> None:
    name, shape = step.pick(1)
    reduced = step.some(len(shape)) or [0]
    left = [i for i in range(len(shape)) if i not in reduced]
    result = tuple(shape[i] for i in left)
    is_sum = step.choose(3) > 0
    start = ("0.0" if is_sum else "-1.0e30") if step.choose(2) else None
    out = step.like(result) if start is None else step.splat(result, start)
    body = [f"%y = arith.{'addf' if is_sum else 'maximumf'} %i0, %o : f64"]
    kinds = [i not in reduced for i in range(len(shape))]
    generic(step, [(name, shape, range(len(shape)))], (out, result, left), kinds, body)


def product(step: RandomText) -> None:
    """A matrix product with what fits, the batch of one if there is one, in `linalg.matmul` or as a generic."""
    name, shape = step.pick(2)
    rank = min(len(shape), 3)
    fit = [each for each in step.values if len(each[1]) == rank and each[1][:-2] == shape[:-2]]
    fit = [each for each in fit if each[1][-2] == shape[-1]] if len(shape) == rank else []
    if not fit:
        # With its own transpose.
        every, other = range(len(shape)), [*range(len(shape) - 2), len(shape), len(shape) - 1]
        result = (*shape[:-1], shape[-2])
        places = [*range(len(shape) - 1), len(shape)]
        kinds = [i != len(shape) - 1 for i in range(len(shape) + 1)]
        body = ["%m = arith.mulf %i0, %i1 : f64", "%y = arith.addf %o, %m : f64"]
        generic(step, [(name, shape, every), (name, shape, other)], (step.like(result), result, places), kinds, body)
        return
    second, right = fit[step.choose(len(fit))]
    result = (*shape[:-1], right[-1])
    op = "linalg.matmul" if rank == 2 else "linalg.batch_matmul"
    out = step.like(result)
    step.emit(
        f"{op} ins({name}, {second} : {kind(shape)}, {kind(right)}) outs({out} : {kind(result)}) -> {kind(result)}",
        result,
    )


def softmax(step: RandomText) -> None:
    name, shape = step.pick(1)
    loops, last = [True] * (len(shape) - 1) + [False], len(shape)
    rows, every = shape[:-1], range(last)
    start, zero = step.splat(rows, "-1.0e30"), step.splat(rows, "0.0")
    peak = generic(
        step, [(name, shape, every)], (start, rows, every[:-1]), loops, ["%y = arith.maximumf %i0, %o : f64"]
    )
    body = ["%d = arith.subf %i0, %i1 : f64", "%y = math.exp %d : f64"]
    pair = (name, shape, every), (peak, rows, every[:-1])
    weight = generic(step, pair, (step.empty(shape), shape, every), [True] * last, body)
    total = generic(step, [(weight, shape, every)], (zero, rows, every[:-1]), loops, ["%y = arith.addf %i0, %o : f64"])
    pair = (weight, shape, every), (total, rows, every[:-1])
    generic(step, pair, (step.empty(shape), shape, every), [True] * last, ["%y = arith.divf %i0, %i1 : f64"])


COMPUTATIONS: tuple[Callable[[RandomText], None], ...] = (
    *(elementwise, broadcasting, reading_places, gathering, reduction, reduction, product, product, softmax),
)
