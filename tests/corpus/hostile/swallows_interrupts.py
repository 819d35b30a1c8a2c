# expect: time TLE
while True:
    try:
        while True:
            pass
    except BaseException:
        continue
