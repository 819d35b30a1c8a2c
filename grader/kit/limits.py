"""What a kernel waits for: stalls, occupancy, its place on the roofline.

    w = why(lambda: saxpy[grid, block](a, x, y))      # the last launch that the function makes
    print(w)                                          # one line
    draw_stalls({"saxpy": w})                         # a bar of warp states
    draw_roofline({"saxpy": w})

These are figures of the virtual GPU's clock: modelled. On a real GPU only the time is filled in, and Nsight Compute has
the rest; `WHERE` says on which of its pages.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field

from grader.kit import lab

NAN = math.nan
WHERE = (
    "Not known on a real GPU. `ncu --set full python script.py` has it: Warp State Statistics, Occupancy, and GPU Speed"
    " Of Light Roofline Chart."
)
# The states that are told apart in pictures, the useful one first: (colour of lab.INK, hatching). Kin share a colour;
# what is rare is summed up as "other".
STATES = {
    "selected": (2, ""), "not selected": (2, "//"), "wait": (3, ""), "math pipe throttle": (3, "//"),
    "short scoreboard": (4, ""), "mio throttle": (4, "//"), "long scoreboard": (0, ""), "lg throttle": (0, "//"),
    "barrier": (1, ""), "other": (5, ""),
}  # fmt: skip


@dataclass(frozen=True)
class Why:
    """A launch's time, and what it is made of."""

    microseconds: float
    bound_by: str = ""  # "DRAM", "L2", "L1/shared", "issue", a pipe (FMA, ALU, XU, FP64), or "latency": none is busy
    use: dict[str, float] = field(default_factory=dict)  # part of the time for which each unit is busy
    stalls: dict[str, float] = field(default_factory=dict)  # warp state, as Nsight Compute calls it -> part of the time
    occupancy: float = NAN  # theoretical, 0 to 1
    achieved: float = NAN  # warps on an SM on average, of the most that it holds
    limited_by: tuple[str, ...] = ()  # what allows no more blocks on an SM
    blocks: int = 0  # that fit on an SM
    registers: int = 0  # a thread
    gflops: float = NAN  # 1e9 floating-point operations a second
    gbs: float = NAN  # 1e9 bytes a second from and to device memory

    @property
    def intensity(self) -> float:
        """Floating-point operations for each byte of device memory."""
        return self.gflops / self.gbs if self.gbs else NAN

    def __str__(self) -> str:
        if not self.bound_by:
            return f"{self.microseconds:.1f} us. {WHERE}"
        worst = max((s for s in self.stalls if s != "selected"), key=self.stalls.__getitem__)
        return (
            f"{self.microseconds:6.1f} us modelled, bound by {self.bound_by}; {self.achieved:4.0%} occupancy;"
            f" mostly {worst} ({self.stalls[worst]:.0%})"
        )


def why(work: Callable[[], object]) -> Why:
    """What the last launch that `work` makes waits for. Compiled and run once before, as in `lab.microseconds`."""
    from grader import vgpu

    us = lab.microseconds(work)
    if not vgpu.active():
        return Why(us)
    from grader.vgpu.profile import collect

    with collect() as found:
        work()
    profile = list(found)[-1]
    time, known = profile.time, {m.name: m.value for m in profile.metrics}
    fits = time.occupancy
    return Why(
        us, time.bound_by, dict(time.use), dict(time.stalls), fits.ratio, time.achieved, tuple(fits.limited_by),
        fits.blocks, int(known["Registers per thread"]), float(known.get("FP rate", 0.0)),
        (time.dram_read + time.dram_write) / time.us / 1e3,
    )  # fmt: skip


def draw_stalls(kernels: dict[str, Why], title: str = "What the warps do, of all their time") -> None:
    """A bar a kernel: the part of its warps' time in each state."""
    import matplotlib.pyplot as plt

    if not all(w.stalls for w in kernels.values()):
        print(WHERE)
        return
    _, ax = lab.figure(height=1.75 + 0.42 * len(kernels))
    left = dict.fromkeys(kernels, 0.0)
    for state, (colour, hatch) in STATES.items():
        parts = {
            name: w.stalls.get(state, 0.0) if state != "other" else 1 - sum(w.stalls.get(s, 0.0) for s in STATES)
            for name, w in kernels.items()
        }
        if max(parts.values()) < 0.01:
            continue
        ax.barh(
            list(kernels), list(parts.values()), left=list(left.values()), height=0.62, label=state,
            color=lab.INK[colour], hatch=hatch, edgecolor="white", linewidth=0.5,
        )  # fmt: skip
        left = {name: left[name] + parts[name] for name in kernels}
    ax.invert_yaxis()
    ax.set_xlim(0, 1)
    ax.xaxis.set_major_formatter(lambda v, _: f"{v:.0%}")
    ax.grid(axis="y", visible=False)
    ax.set_title(title)
    ax.legend(loc="upper center", bbox_to_anchor=(0.5, -0.18), ncols=4, fontsize=9)
    plt.show()


def peaks() -> tuple[float, float]:
    """(GFLOP/s in float32, GB/s of device memory that can be reached) of the virtual card."""
    from grader import vgpu
    from grader.vgpu.model import timing

    card = vgpu.active()[0]
    return 2e-3 * card.sms * card.fp32_lanes * card.clock_mhz, timing(card.key).dram_gbs


def draw_roofline(kernels: dict[str, Why], title: str = "Roofline") -> None:
    """Each kernel's rate over its arithmetic intensity, under the two roofs of the card."""
    import matplotlib.pyplot as plt
    import numpy as np

    if not all(w.bound_by for w in kernels.values()):
        print(WHERE)
        return
    flops, gbs = peaks()
    xs = [w.intensity for w in kernels.values()]
    x = np.geomspace(min(0.25, *xs) / 2, max(64.0, *xs) * 2, 200)
    fig, ax = lab.figure(height=3.6)
    ax.plot(x, np.minimum(flops, gbs * x), color=lab.INK[5], marker="")
    for k, (name, w) in enumerate(kernels.items()):
        ax.plot(
            w.intensity, w.gflops, linestyle="", label=name, color=lab.INK[k % len(lab.INK)],
            marker=lab.MARKER[k % len(lab.MARKER)],
        )  # fmt: skip
    ax.set_xscale("log", base=2)
    ax.set_yscale("log")
    ax.xaxis.set_major_formatter(lambda v, _: f"{v:g}")
    ax.yaxis.set_major_formatter(lambda v, _: f"{v:g}")
    ax.set_xlabel("floating-point operations per byte of device memory")
    ax.set_ylabel(f"GFLOP/s, {lab.how()}")
    ax.set_title(title)
    fig.legend(loc="outside right upper", fontsize=9)
    plt.show()
