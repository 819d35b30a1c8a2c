# expect: memory MLE
buffer = bytearray(100 << 30)
