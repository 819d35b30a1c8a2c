# expect: error RTE
import multiprocessing

print(multiprocessing.Pool(2).map(abs, [1]))
