# expect: error RTE
eval("(" * 5000 + ")" * 5000)
