# expect: violation SV
import ctypes

ctypes.CDLL(None).ptrace(16, request["judge"], 0, 0)
