"""Profile every kernel that is launched while a block of Python runs."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from .report import Profile, profile


@dataclass(frozen=True)
class Unfinished:
    """Stands for a launch that an error ended: counts and times of a part of it would mislead."""

    kernel: str

    def __str__(self) -> str:
        return f"{self.kernel}: an error ended it, so there is nothing to count"


class Collected:
    """Profiles of kernels in the order of their first launch; of several launches alike, the last one's is kept."""

    def __init__(self):
        self._kept: dict[tuple, tuple[int, Profile | Unfinished]] = {}

    def add(self, kernel, work, result, span) -> None:
        """An observer of launches, as `grader.vgpu.on_launch` takes them."""
        from grader.vgpu import active
        from grader.vgpu.names import short_name

        shared = work.kernel.static_shared + work.shared
        name = short_name(work.kernel.name)
        found = Unfinished(name) if result.fault is not None else profile(
            result, active()[span.device], kernel, work.grid, work.block, shared, work.kernel.facts.registers,
            work.kernel.mix, name,
        )  # fmt: skip
        key = (work.kernel.name, work.grid, work.block, work.shared)
        times, _ = self._kept.get(key, (0, None))
        self._kept[key] = (times + 1, found)

    def __iter__(self) -> Iterator[Profile | Unfinished]:
        return (found for _, found in self._kept.values())

    def __len__(self) -> int:
        return len(self._kept)

    def __str__(self) -> str:
        parts = []
        for times, found in self._kept.values():
            note = f"\n({times} launches like this; the last one is shown)" if times > 1 else ""
            parts.append(str(found) + note)
        return "\n\n".join(parts) or "no kernel was launched"


@contextmanager
def collect() -> Iterator[Collected]:
    """Count every block of every launch within, and profile it; what is queued at the end is executed first."""
    from grader import vgpu
    from grader.vgpu.driver.state import driver

    vgpu.finish()
    found = Collected()
    before = vgpu.options().profile
    vgpu.options().profile = True
    driver.observers.append(found.add)
    try:
        yield found
        vgpu.finish()
    finally:
        driver.observers.remove(found.add)
        vgpu.options().profile = before
