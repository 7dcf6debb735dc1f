"""What a processor must offer to run the code that IREE has compiled for one."""

from __future__ import annotations

import re

_TARGET = re.compile(r'cpu_features = "([^"]*)".*?target_triple = "(\w+)-')

# Instructions for operating systems, for keys and clocks, and x86-64 itself: no code generated from arithmetic depends
# on them. LLVM turns them on with a processor's name, and virtual machines hide some of them.
_NOT_GENERATED = frozenset(
    "64bit cldemote clflushopt clwb clzero enqcmd fsgsbase hreset invpcid kl lwp movdir64b movdiri mwaitx pconfig pku "
    "prfchw ptwrite rdpid rdpru rdrnd rdseed rtm serialize sgx shstk tsxldtrk uintr usermsr waitpkg wbnoinvd widekl "
    "xsave xsavec xsaveopt xsaves".split()
)


def required_features(schedule: str) -> tuple[str, ...]:
    """The architecture, then, sorted and in LLVM's names, the features that code for the target of IREE's program
    `schedule` may use; empty where that target is not a CPU.
    """
    target = _TARGET.search(schedule)
    if target is None:
        return ()
    enabled: dict[str, bool] = {}
    # A later entry overrides an earlier one: first those of the processor's name, then those detected.
    for entry in filter(None, target[1].split(",")):
        enabled[entry[1:]] = entry[0] == "+"
    features = sorted(name for name, on in enabled.items() if on and name not in _NOT_GENERATED)
    return (target[2], *features)
