# expect: error RTE
open(request["canary"] + "/gradebook.db", "a").write("A+")
