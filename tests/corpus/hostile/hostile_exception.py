# expect: error RTE
class Evil(BaseException):
    def __str__(self):
        raise SystemExit

    __repr__ = __str__


raise Evil
