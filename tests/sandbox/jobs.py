"""Jobs that the tests run in the sandbox."""


def warm() -> None:
    """Import what the hostile submissions try to get at."""
    import numba.cuda  # noqa: F401
    import numpy.testing  # noqa: F401


def warm_with_threads() -> None:
    import threading

    threading.Thread(target=threading.Event().wait, daemon=True).start()


def warm_badly() -> None:
    raise RuntimeError("no such luck")


def echo(request: dict, blobs: list[bytes]) -> tuple[dict, list[bytes]]:
    return request, blobs


def execute(request: dict, blobs: list[bytes]) -> tuple[dict, list[bytes]]:
    """Run the first blob as a student's source."""
    exec(compile(blobs[0], "submission.py", "exec"), {"__name__": "submission", "request": request})
    return {"done": True}, []


def no_pair(request: dict, blobs: list[bytes]) -> dict:
    return {}
