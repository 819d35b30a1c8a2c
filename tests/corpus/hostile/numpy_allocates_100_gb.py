# expect: memory MLE
import numpy as np

buffer = np.ones(100 << 27)
