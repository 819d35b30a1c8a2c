# expect: memory MLE
text = "x"
while True:
    text += text
