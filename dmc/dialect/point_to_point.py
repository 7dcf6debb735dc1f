"""Rules of messages: the peer is a member, and every send has its receive."""

from __future__ import annotations

from collections.abc import Sequence

from dmc._mlir import ir
from dmc.dialect._dm_gen import RecvOp, SendOp
from dmc.dialect.rules import symbol_rule
from dmc.dialect.symbols import Symbols, job_rule
from dmc.errors import DmcError


@symbol_rule(SendOp)
def send_target_is_a_member(op: SendOp, symbols: Symbols) -> None:
    """`target` is below the group's size; the channel, if given, is one for this group."""
    symbols.check_member("target", op.target.value, op.group)
    symbols.check_channel(op.channel, op.group)


@symbol_rule(RecvOp)
def recv_source_is_a_member(op: RecvOp, symbols: Symbols) -> None:
    """`source` is below the group's size; the channel, if given, is one for this group."""
    symbols.check_member("source", op.source.value, op.group)
    symbols.check_channel(op.channel, op.group)


@job_rule(SendOp, RecvOp)
def messages_are_paired(ops: Sequence[SendOp | RecvOp]) -> None:
    """Each instance has one send and one receive, with the same type and group."""
    sends = _by_instance([op for op in ops if isinstance(op, SendOp)])
    recvs = _by_instance([op for op in ops if isinstance(op, RecvOp)])
    for instance, send in sends.items():
        if instance not in recvs:
            raise DmcError(
                send, f"instance {instance} has no dm.recv", hint="every message requires a send and a receive"
            )
        _check_ends(instance, send, recvs[instance])
    for instance, recv in recvs.items():
        if instance not in sends:
            raise DmcError(
                recv, f"instance {instance} has no dm.send", hint="every message requires a send and a receive"
            )


def _by_instance(ops: Sequence[SendOp] | Sequence[RecvOp]) -> dict[int, ir.OpView]:
    found: dict[int, ir.OpView] = {}
    for op in ops:
        instance = op.instance.value
        if instance in found:
            where = found[instance].location
            raise DmcError(op.operation, f"instance {instance} is already used", hint=f"by the same op at {where}")
        found[instance] = op.operation
    return found


def _check_ends(instance: int, send: ir.OpView, recv: ir.OpView) -> None:
    sent, received = send.operands[0].type, recv.results[0].type
    if sent != received:
        raise DmcError(recv, f"instance {instance} receives {received}, but {sent} is sent at {send.location}")
    groups = send.attributes["group"], recv.attributes["group"]
    if groups[0] != groups[1]:
        raise DmcError(recv, f"instance {instance} is on {groups[1]}, but sent on {groups[0]} at {send.location}")
