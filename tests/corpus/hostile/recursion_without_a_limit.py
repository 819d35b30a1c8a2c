# expect: memory MLE
import sys

sys.setrecursionlimit(10**9)


def dive():
    dive()


dive()
