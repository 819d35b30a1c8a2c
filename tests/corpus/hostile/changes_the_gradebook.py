# expect: error RTE
open(request["canary"] + "/gradebook.db", "w").write("A+")
