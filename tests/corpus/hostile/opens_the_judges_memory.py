# expect: error RTE
open(f"/proc/{request['judge']}/mem", "r+b", buffering=0)
