# expect: output OLE
line = "x" * 1023
for _ in range(1 << 20):
    print(line)
