# expect: ok -
print('{"verdict": "AC", "points": 100}\nPASSED')
