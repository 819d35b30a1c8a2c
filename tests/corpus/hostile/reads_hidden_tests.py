# expect: error RTE
print(open(request["canary"] + "/hidden/test_saxpy.py").read())
