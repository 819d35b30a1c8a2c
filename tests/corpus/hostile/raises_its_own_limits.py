# expect: memory MLE
import resource

for which in (resource.RLIMIT_AS, resource.RLIMIT_CPU):
    try:
        resource.setrlimit(which, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    except ValueError:
        continue
buffer = bytearray(100 << 30)
