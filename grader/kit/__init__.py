"""What lessons and exercises import: device functions for asynchronous copies, hints about managed memory, and a small
laboratory (`lab`).

The device functions are thin: one PTX instruction each, or one loop. They are the same on a GPU and on the virtual one.
Importing this module imports numba.cuda, so `%load_ext grader` comes first where there is no GPU.
"""

from importlib import import_module

_HOME = {
    "copies": ("cp_async", "cp_async_commit", "cp_async_wait", "cp_async_wait_all", "cp_async_zfill"),
    "barriers": (
        "barrier_arrive", "barrier_sync", "bulk_copy", "cp_async_arrive", "fence_async", "mbarrier_arrive",
        "mbarrier_arrive_expect_tx", "mbarrier_init", "mbarrier_test", "mbarrier_wait",
    ),
    "wide": ("load4", "store4"),
    "managed": ("advise", "prefetch"),
}  # fmt: skip
__all__ = sorted(name for names in _HOME.values() for name in names)


def __getattr__(name: str):
    """Import a part of the kit when it is asked for: lessons that need none do not wait for it."""
    for module, names in _HOME.items():
        if name in names:
            return getattr(import_module(f"grader.kit.{module}"), name)
    raise AttributeError(f"the kit has no {name!r}; it has {', '.join(__all__)}")
