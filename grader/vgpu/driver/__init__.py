"""The CUDA driver's entry points (`cu*`), a file a chapter of the CUDA Driver API manual."""

from grader.vgpu.driver.recorder import Recording, record

__all__ = ["Recording", "record"]
