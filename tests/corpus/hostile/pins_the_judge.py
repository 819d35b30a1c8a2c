# expect: error RTE
import os

os.sched_setaffinity(request["judge"], {0})
