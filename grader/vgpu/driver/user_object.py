"""Graph Management's user objects."""

from __future__ import annotations

import ctypes
from collections import Counter

from grader.vgpu.driver import errors
from grader.vgpu.driver.abi import entry, out, ptr, u32, u64
from grader.vgpu.driver.errors import CudaError
from grader.vgpu.driver.state import GRAPH, USER_OBJECT, Object

NO_DESTRUCTOR_SYNC, MOVE = 1, 1


class UserObject(Object):
    """A reference count, and a C function that is called when it reaches 0."""

    def __init__(self, data: int, destroy: int, count: int):
        super().__init__()
        self.data, self.destroy, self.count = data, destroy, count

    def drop(self, count: int) -> None:
        """Give up references; the last one calls the destructor."""
        if not 0 < count <= self.count:
            raise CudaError(errors.INVALID_VALUE)
        self.count -= count
        if not self.count:
            self.release()
            ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.destroy)(self.data)


def drop_all(held: Counter[UserObject]) -> None:
    """Give up these references; a destructor may come back here, so they are forgotten first."""
    references = [(user_object, count) for user_object, count in held.items() if count]
    held.clear()
    for user_object, count in references:
        user_object.drop(count)


@entry("cuUserObjectCreate", out(u64), ptr, ptr, u32, u32, context=False)
def user_object_create(data, destroy, count, flags):
    if not destroy or not count or flags != NO_DESTRUCTOR_SYNC:
        raise CudaError(errors.INVALID_VALUE)
    return UserObject(data, destroy, count).handle


@entry("cuUserObjectRetain", USER_OBJECT, u32, context=False)
def user_object_retain(user_object, count):
    if not count:
        raise CudaError(errors.INVALID_VALUE)
    user_object.count += count


@entry("cuUserObjectRelease", USER_OBJECT, u32, context=False)
def user_object_release(user_object, count):
    user_object.drop(count)


@entry("cuGraphRetainUserObject", GRAPH, USER_OBJECT, u32, u32, context=False)
def graph_retain_user_object(graph, user_object, count, flags):
    if not count or flags & ~MOVE:
        raise CudaError(errors.INVALID_VALUE)
    if not flags & MOVE:
        user_object.count += count
    graph.user_objects[user_object] += count


@entry("cuGraphReleaseUserObject", GRAPH, USER_OBJECT, u32, context=False)
def graph_release_user_object(graph, user_object, count):
    if not 0 < count <= graph.user_objects[user_object]:
        raise CudaError(errors.INVALID_VALUE)
    graph.user_objects[user_object] -= count
    user_object.drop(count)
