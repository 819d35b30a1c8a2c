"""Content for inputs that simple-minded answers do not survive."""

import numpy as np


def values(rng: np.random.Generator, *shape: int) -> np.ndarray:
    """float32 of mixed kind: uniform in +-[0.5, 1.5], about a tenth exact integers, a few elements near +-100."""
    size = int(np.prod(shape))
    x = rng.random(size, np.float32) + np.float32(0.5)
    whole = rng.integers(0, size, size // 10)
    x[whole] = rng.integers(1, 8, whole.size)
    far = rng.integers(0, size, max(1, size // 500))
    x[far] = rng.uniform(90.0, 110.0, far.size)
    np.negative(x, out=x, where=rng.integers(0, 2, size, np.uint8).view(bool))
    return x.reshape(shape)


def near(rng: np.random.Generator, *centres: int, spread: int = 40) -> list[int]:
    """A size near each centre, never a multiple of 32."""
    return [next(n for n in rng.integers(c + 1, c + spread, 100).tolist() if n % 32) for c in centres]
