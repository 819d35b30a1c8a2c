# expect: error RTE
def dive():
    return dive()


dive()
