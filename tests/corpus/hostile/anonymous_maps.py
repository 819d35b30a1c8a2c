# expect: error RTE
import mmap

kept = []
while True:
    kept.append(mmap.mmap(-1, 16 << 20))
