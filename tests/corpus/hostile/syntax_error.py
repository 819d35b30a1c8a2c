# expect: error RTE
def kernel(:
