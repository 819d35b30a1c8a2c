# expect: error RTE
import sqlite3

print(sqlite3.connect(request["canary"] + "/gradebook.db").execute("select 1").fetchall())
