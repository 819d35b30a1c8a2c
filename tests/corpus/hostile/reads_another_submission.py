# expect: error RTE
print(open(request["canary"] + "/submitted/alice/saxpy.py").read())
