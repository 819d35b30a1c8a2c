"""The order in which a child gives up its powers."""

import os
from collections.abc import Iterable
from dataclasses import dataclass

from . import landlock, limits, paths, privileges, seccomp


@dataclass(frozen=True)
class Prepared:
    """What is the same for every child, made ready once in the zygote."""

    ruleset: landlock.Ruleset | None  # None where the kernel has no Landlock
    seccomp: bool  # filters are to be had
    namespaces: tuple[str, ...]  # those that the zygote lives in

    @property
    def complete(self) -> bool:
        """Both halves are there: neither suffices alone."""
        return self.ruleset is not None and self.seccomp


def prepare(readable: Iterable[str], namespaces: tuple[str, ...]) -> Prepared:
    """Build what children put on. `readable` comes on top of Python and its packages."""
    files, listable = paths.readable(readable)
    ruleset = landlock.Ruleset(files, listable) if landlock.abi() else None
    return Prepared(ruleset, seccomp.available(), namespaces)


def apply(prepared: Prepared, job_limits: limits.Limits) -> tuple[str, ...]:
    """Lock the calling process, for good; give the names of the protections now in force.

    Landlock comes before seccomp, which denies the calls that set it up. Raises OSError when a step fails that this
    machine is known to offer: the caller must then run nothing.
    """
    privileges.no_new_privileges()
    limits.apply(job_limits, limits.address_space())
    privileges.drop_capabilities()
    privileges.hide()
    in_force = ["rlimits", "no capabilities", *(f"{name} namespace" for name in prepared.namespaces)]
    if prepared.ruleset is not None:
        prepared.ruleset.restrict_self()
        in_force.append(f"landlock {prepared.ruleset.abi}")
    if prepared.seccomp:
        seccomp.child_filter(os.getpid(), job_limits.threads).install()
        in_force.append("seccomp")
    return tuple(in_force)
