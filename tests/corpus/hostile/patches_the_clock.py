# expect: ok -
import time

for name in ("time", "monotonic", "perf_counter", "perf_counter_ns", "process_time"):
    setattr(time, name, lambda: 0)
