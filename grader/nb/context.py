"""Whether the session's CUDA context is still good."""

RESTART = (
    "The context is lost: every further CUDA call in this session fails. Mend the kernel, restart the notebook's kernel"
    " (Kernel > Restart Kernel), and run the cells again, without the one that lost it if it is not mended."
)


def is_lost() -> bool:
    """Whether an error has ended this process's context, as a stray access does. False where no CUDA call was made yet.

    Asks by making an event: that waits for nothing, also where a kernel never ends.
    """
    from numba import cuda
    from numba.cuda.cudadrv.driver import CudaAPIError, driver

    if not driver.is_initialized:
        return False
    try:
        cuda.event()
    except CudaAPIError:
        return True
    return False
