"""A course in asynchronous CUDA in Python: a virtual GPU, and a grader for untrusted kernels."""


def load_ipython_extension(shell) -> None:
    """`%load_ext grader`: see `grader.nb.extension`."""
    from grader.nb import extension

    extension.load(shell)


def unload_ipython_extension(shell) -> None:
    """`%unload_ext grader`."""
    from grader.nb import extension

    extension.unload(shell)
