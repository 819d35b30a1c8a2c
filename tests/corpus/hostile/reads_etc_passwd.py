# expect: error RTE
print(open("/etc/passwd").read())
