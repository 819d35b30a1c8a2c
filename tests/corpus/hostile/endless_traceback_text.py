# expect: error RTE
raise ValueError("x" * 10_000_000)
