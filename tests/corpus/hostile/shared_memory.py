# expect: error RTE
from multiprocessing import shared_memory

shared_memory.SharedMemory("left", create=True, size=1 << 20)
