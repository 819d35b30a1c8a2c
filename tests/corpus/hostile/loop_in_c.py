# expect: time TLE
sum(range(10**15))
