# expect: time TLE
while True:
    pass
