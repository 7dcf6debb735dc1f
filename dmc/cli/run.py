"""`dmc run step.dmc --steps N --batches file.npz`: continues training, printing the loss of every step.

A step of several ranks on GPUs is started with `torchrun --nproc-per-node 2 -m dmc run …`, `mpirun` or `srun`; rank 0
prints and writes.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import zipfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from dmc.cli.pace import Pace, late_ranks, shown
from dmc.cli.saving import Saving, terminable
from dmc.dtypes import describe, dtype_of, mlir_name
from dmc.errors import InputError
from dmc.runtime import Checkpoints, Step, load


def add_parser(commands: Any) -> None:
    """Adds the command to the `dmc` parser."""
    parser = commands.add_parser("run", help="train with a compiled step", description=__doc__)
    parser.add_argument("file", metavar="FILE", help="a .dmc file")
    parser.add_argument("--steps", type=_positive, required=True, metavar="N", help="training steps to run")
    parser.add_argument(
        "--batches",
        required=True,
        metavar="NPZ",
        help="arrays named like the inputs, each with a leading axis of batches: [batches, *shape of the input]",
    )
    parser.add_argument(
        "--weights",
        metavar="PATH",
        help="begin with the weights in this folder or file of safetensors; a checkpoint is resumed with its own",
    )
    parser.add_argument("--lr", type=float, help="learning rate of every parameter group")
    parser.add_argument("--shuffle", type=int, metavar="SEED", help="shuffle the batches in every epoch")
    parser.add_argument(
        "--device", metavar="NAME", help="a device other than the default: cpu, cuda or, for example, cuda:1"
    )
    parser.add_argument("--verify", action="store_true", help="compare the first step on a GPU with the CPU's plan")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="write the trained step to this file, at the end or on Ctrl-C"
    )
    parser.add_argument("--save-every", type=_positive, metavar="N", help="also write it after every N steps")
    parser.add_argument(
        "--checkpoints",
        metavar="DIR",
        help="write checkpoints to this directory, at the end and every N steps; resume from the last one in it",
    )
    parser.add_argument(
        "--profile", type=Path, metavar="JSON", help="after training, time the step and, on a GPU, each of its commands"
    )
    parser.set_defaults(command=run)


def run(arguments: argparse.Namespace) -> int:
    """Runs the command; raises DmcError."""
    if arguments.save_every and not (arguments.output or arguments.checkpoints):
        raise InputError("--save-every", "needs a file to write", hint="give -o FILE or --checkpoints DIR as well")
    step = load(arguments.file, arguments.device, arguments.verify)
    if step.phases:
        fact = f"has several phases, {', '.join(step.phases)}, and only Python code knows when each has its turn"
        raise InputError(arguments.file, fact, hint="dmc.runtime.load(file), and call step.phases[name](…)")
    batches = read_batches(Path(arguments.batches), step)
    first = step.steps_done + 1
    checkpoints = Checkpoints(step, arguments.checkpoints) if arguments.checkpoints else None
    saving = Saving(step, first - 1, arguments.output, arguments.save_every, checkpoints)
    saving.announce()
    if arguments.weights:
        step.load_weights(arguments.weights)
    done = saving.resume()
    pace, count = Pace.of(step), max(arguments.steps - done, 0)
    try:
        with terminable(), shown(pace, count, not step.is_first) as say:
            for number, loss in _train(step, batches, arguments, saving, done, pace):
                say(f"step {first + number:>6}  loss {loss:.6f}")
    except KeyboardInterrupt:
        saving.on_interrupt()
        raise
    lines = [*_late(step, pace), *pace.summary()]
    if arguments.verify and count:
        lines.append(f"step {first + done} agrees with the CPU's result for the same plan")
    saving.at_end()
    if step.is_first:
        print("\n".join(lines), flush=True)
    if arguments.profile:
        _profile(step, pace, arguments.profile)
    return 0


def _profile(step: Step, pace: Pace, path: Path) -> None:
    """Times further steps, whose results are not kept."""
    profile = step.profile(pace.steps_ns)
    if step.is_first:
        profile.write(path)
        print(f"note: {path} holds the profile; dmc compare shows it beside the prediction", file=sys.stderr)


def _late(step: Step, pace: Pace) -> list[str]:
    """Who waits for whom, where there are several processes."""
    if step.peers is None:
        return []
    total = pace.ended[-1] - pace.ended[0]
    own = f"{max(total - step.peers.waited_s, 0.0):.6f}".encode()
    told = late_ranks([float(text) for text in step.peers.store.exchange("pace", own)], total)
    return [] if told is None else [told]


def read_batches(path: Path, step: Step) -> dict[str, np.ndarray]:
    """Arrays by input name, each with a leading dimension of batches; raises InputError."""
    try:
        with np.load(path, allow_pickle=False) as archive:
            batches = {name: _typed(archive[name]) for name in archive.files}
    except (ValueError, EOFError, zipfile.BadZipFile, AttributeError) as error:
        raise InputError(str(path), f"is not an .npz file ({error})", hint="write one with numpy.savez") from error
    names = [spec.name for spec in step.signature.batch]
    if sorted(names) != sorted(batches):
        fact = f"contains {', '.join(batches) or 'nothing'}; the step takes {', '.join(names)}"
        raise InputError(str(path), fact, hint="name the arrays like the inputs, see `dmc inspect`")
    _check_leading(path, step, batches)
    return batches


def _check_leading(path: Path, step: Step, batches: Mapping[str, np.ndarray]) -> None:
    """Raises InputError unless all arrays have a first axis that counts batches, equally long."""
    hint = "stack the batches of each input, as in numpy.stack(batches); one alone is batch[None]"
    for spec in step.signature.batch:
        if batches[spec.name].shape == spec.shape:
            fact = f"{spec.name!r} is one batch, {describe(spec.dtype, spec.shape)}: it lacks a leading axis of batches"
            raise InputError(str(path), fact, hint=hint)
    counts = {array.shape[0] if array.ndim else 0 for array in batches.values()}
    if len(counts) != 1 or counts == {0}:
        sizes = ", ".join(f"{name} {describe(mlir_name(a.dtype), a.shape)}" for name, a in batches.items())
        fact = f"expected a leading axis of batches, equally long in all arrays, got {sizes}"
        raise InputError(str(path), fact, hint=hint)


def _typed(array: np.ndarray) -> np.ndarray:
    # The .npy format has no name for bfloat16 and stores it as two untyped bytes.
    return array.view(dtype_of("bf16").numpy) if array.dtype == np.dtype("V2") else array


def _train(
    step: Step,
    batches: Mapping[str, np.ndarray],
    arguments: argparse.Namespace,
    saving: Saving,
    done: int,
    pace: Pace,
) -> Iterator[tuple[int, float]]:
    """Yields (number, loss) of the steps after the first `done`, which are done.

    The next step is queued before a loss is read, so that the device never idles.
    """
    order = _order(len(next(iter(batches.values()))), arguments.shuffle)
    previous = None
    for number, index in itertools.islice(enumerate(order), done, arguments.steps):
        batch = pace.read(lambda at=index: {name: array[at] for name, array in batches.items()}, previous)
        result = step.call_flat(batch, lr=arguments.lr)
        loss = result if step.signature.aux is None else result[0]
        saving.after(number + 1)
        if previous is not None:
            yield number - 1, pace.known(previous)
        previous = loss
    if previous is not None:
        yield arguments.steps - 1, pace.known(previous)


def _order(count: int, seed: int | None) -> Iterator[int]:
    generator = None if seed is None else np.random.default_rng(seed)
    while True:
        yield from range(count) if generator is None else generator.permutation(count)


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError(f"expected a number above 0, got {value}")
    return value
